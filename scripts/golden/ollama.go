// Chat templates in Ollama: its own functions, with results as lines of JSON. scripts/golden/programs.py builds it in a copy of
// Ollama's source, next to the functions of server/images.go that decide between templates.
//
// usage: templates INDEX TEMPLATES   detection for the templates in {name: text}
//        known INDEX CHATS           prompts of Ollama's templates
//        render TEMPLATES CHATS      prompts of Go templates in {name: text}
//        types                       ids of tensor types without a size
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"

	"github.com/agnivade/levenshtein"
	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/fs/ggml"
	"github.com/ollama/ollama/template"
)

type entry struct{ Name, Template string }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func load[T any](argument int) (value T) {
	text, err := os.ReadFile(os.Args[argument])
	check(err)
	check(json.Unmarshal(text, &value))
	return value
}

func parse(text string) *template.Template {
	t, err := template.Parse(text)
	check(err)
	return t
}

func prompts(t *template.Template, chats map[string][]api.Message) map[string]string {
	made := map[string]string{}
	for name, chat := range chats {
		var b bytes.Buffer
		// Execute changes the messages.
		check(t.Execute(&b, template.Values{Messages: slices.Clone(chat)}))
		made[name] = b.String()
	}
	return made
}

func main() {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	switch os.Args[1] {
	case "templates":
		index := load[[]entry](2)
		for name, text := range load[map[string]string](3) {
			row := map[string]any{"name": name, "ollama": nil, "prefers_file": false}
			if named, err := template.Named(text); err == nil {
				distance := 1 << 30
				for _, e := range index {
					distance = min(distance, levenshtein.ComputeDistance(text, e.Template))
				}
				t := parse(string(named.Bytes))
				row["ollama"] = []any{named.Name, distance}
				row["prefers_file"] = shouldPreferChatTemplate(text, chatTemplateCapabilities(nil, text), t, goTemplateCapabilities(t))
			}
			check(out.Encode(row))
		}
	case "known":
		chats := load[map[string][]api.Message](3)
		seen := map[string]bool{}
		for _, e := range load[[]entry](2) {
			if seen[e.Name] {
				continue
			}
			seen[e.Name] = true
			named, err := template.Named(e.Template)
			check(err)
			text, err := io.ReadAll(named.Reader())
			check(err)
			t := parse(string(text))
			stop := []string{}
			if named.Parameters != nil {
				stop = named.Parameters.Stop
			}
			tools := goTemplateHasToolRoundTrip(t)
			check(out.Encode(map[string]any{"name": e.Name, "stop": stop, "tools": tools, "prompts": prompts(t, chats)}))
		}
	case "render":
		chats := load[map[string][]api.Message](3)
		for name, text := range load[map[string]string](2) {
			check(out.Encode(map[string]any{"name": name, "prompts": prompts(parse(text), chats)}))
		}
	case "types":
		unread := []int{}
		for id := range 64 {
			if ggml.TensorType(id).TypeSize() == 0 {
				unread = append(unread, id)
			}
		}
		check(out.Encode(unread))
	}
}

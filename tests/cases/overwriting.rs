//! Files that a command reads are never overwritten, with `--force` either.

use crate::common::{Sandbox, succeed, words};

#[test]
fn output_over_any_input_is_refused() {
    let sandbox = Sandbox::with_base_and_text();
    succeed(sandbox.eval(&words("imatrix base.gguf --text text -o im.gguf --chunks 1 --context 64")));
    sandbox.write("t.jinja", "{{ messages[0].content }}");
    sandbox.write("kv.json", r#"{"general.name": {"type": "str", "value": "x"}}"#);
    sandbox.write("value", "x");
    sandbox.write("types", "output=q8_0\n");
    let before = sandbox.listing("");
    let quantize = |line: &str| sandbox.quantize(&words(line));
    let set = |line: &str| sandbox.inspect(&words(line));
    for (ran, path) in [
        (quantize("base.gguf im.gguf q8_0 --imatrix im.gguf --force"), "im.gguf"),
        (quantize("base.gguf x.gguf q8_0 --imatrix im.gguf --save-recipe im.gguf --force"), "im.gguf"),
        (quantize("base.gguf types q8_0 --tensor-type-file types --force"), "types"),
        (sandbox.convert(&words("llama im.gguf -t q8_0 --imatrix im.gguf --force")), "im.gguf"),
        (set("set base.gguf --chat-template t.jinja -o t.jinja --force"), "t.jinja"),
        (set("set base.gguf --from kv.json -o kv.json --force"), "kv.json"),
        (set("set base.gguf general.name=@value -o value --force"), "value"),
    ] {
        ran.ends_and_says(1, &format!("output `{path}` is also the input"));
    }
    for force in ["", " --force"] {
        let ran = quantize(&format!("base.gguf a.gguf q8_0 --save-recipe a.gguf{force}"));
        ran.ends_and_says(2, "two options write to a.gguf");
    }
    assert_eq!(sandbox.listing(""), before);
}

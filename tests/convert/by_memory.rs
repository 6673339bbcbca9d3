//! `gguf-convert SRC` without `--type`, types as arguments, words for types, and the `Modelfile`.

use crate::common::{Sandbox, succeed, words};

fn bytes(sandbox: &Sandbox, file: &str) -> Vec<u8> {
    std::fs::read(sandbox.path(file)).unwrap()
}

#[test]
fn type_is_chosen_for_the_memory() {
    let sandbox = Sandbox::with_golden("llama");
    succeed(sandbox.convert(&words("llama out/{ftype}.gguf --type q8_0,q4_k_m,q2_k -q")));
    let size = |name: &str| std::fs::metadata(sandbox.path(&format!("out/{name}.gguf"))).unwrap().len();
    // A quarter of the memory for q8_0, 65 % for q4_k_m, 80 % for q2_k.
    let memories = [
        ("q8_0", 4 * size("q8_0"), "; small models lose noticeably at 4 bits\n"),
        ("q4_k_m", 3 * size("q4_k_m"), "best quality: --type q8_0"),
        ("q2_k", size("q2_k") * 100 / 80 + 1, " of memory\n"),
    ];
    for (name, memory, other) in memories {
        let out = format!("chosen-{name}.gguf");
        let ran = succeed(sandbox.convert(&["llama", &out, "--memory", &format!("{memory}B")]));
        ran.says(&format!("type {name}: "));
        ran.says(other);
        assert!(bytes(&sandbox, &out) == bytes(&sandbox, &format!("out/{name}.gguf")), "{name}");
    }
    // The memory of this machine is enough for a small model.
    let ran = succeed(sandbox.convert(&["llama", "here.gguf"]));
    ran.says("type q8_0: ");
    ran.says("chat with it: gguf-eval chat here.gguf\n");
    assert_eq!(sandbox.convert(&words("llama x.gguf --memory 1GB --type q8_0")).code, Some(2));
    // A plan must be the same on every machine.
    sandbox.convert(&words("plan plan.json llama x.gguf")).ends_and_says(2, "missing --type");
}

#[test]
fn type_can_be_an_argument_or_a_word() {
    let sandbox = Sandbox::with_golden("llama");
    let want = "llama out/want.gguf --type q4_k_m -q";
    succeed(sandbox.convert(&words(want)));
    for (call, file, note) in [
        ("llama out/a.gguf q4_k_m", "out/a.gguf", ""),
        ("llama out/b.gguf --type 4bit", "out/b.gguf", "note: type `4bit` is q4_k_m\n"),
        ("llama out/c.gguf small", "out/c.gguf", "note: type `small` is q4_k_m\n"),
    ] {
        let ran = succeed(sandbox.convert(&words(call)));
        ran.says(note);
        assert_eq!(ran.stderr.contains("` is q4_k_m"), !note.is_empty(), "{}", ran.stderr);
        assert!(bytes(&sandbox, file) == bytes(&sandbox, "out/want.gguf"), "{call}");
    }
    // `SRC TYPE` writes to the current folder, as without an output.
    let ran = succeed(sandbox.convert(&words("llama q4,f16 --dry-run --json")));
    ran.says("type `q4` is q4_k_m");
    let json = ran.json();
    let types: Vec<&str> =
        json["outputs"].as_array().unwrap().iter().filter_map(|file| file["type"].as_str()).collect();
    assert_eq!(types, ["Q4_K_M", "F16"], "{json}");
    succeed(sandbox.convert(&words("llama base.gguf bf16 -q")));
    succeed(sandbox.quantize(&words("base.gguf d.gguf 4-bit"))).says("type `4-bit` is q4_k_m");
    succeed(sandbox.quantize(&words("base.gguf e.gguf q4_k_m -q")));
    assert!(bytes(&sandbox, "d.gguf") == bytes(&sandbox, "e.gguf"));
    sandbox.convert(&words("llama x.gguf q8_0 --type q4_k_m")).ends_and_says(2, "cannot be used with");
}

#[test]
fn modelfile_is_written_next_to_the_file() {
    let sandbox = Sandbox::with_golden("llama");
    succeed(sandbox.convert(&words("llama out/x.gguf --type q8_0 --modelfile out/Modelfile")));
    let text = sandbox.text("out/Modelfile");
    assert!(text.starts_with("FROM ./x.gguf\nTEMPLATE \"\"\""), "{text}");
    succeed(sandbox.inspect(&words("show out/x.gguf --modelfile out/Again")));
    assert_eq!(sandbox.text("out/Again"), text);
    sandbox.inspect(&words("show out --modelfile x")).ends_and_says(2, "expected one file for --modelfile");
    // As written, and with changed lines.
    for (changed, code, finding) in [
        (text.clone(), 0, "FROM out/x.gguf\n"),
        (
            text.replace(".Content", ".Contents"),
            1,
            "warning: modelfile: TEMPLATE differs from the translated",
        ),
        (
            "FROM ./x.gguf\nADAPTER none.gguf\n".to_owned(),
            1,
            "error: modelfile: missing file `out/none.gguf`",
        ),
        ("FROM x.gguf\nADAPTER ./x.gguf\n".to_owned(), 1, "ADAPTER out/x.gguf: not a supported LoRA adapter"),
        ("TEMPLATE x\nADAPTER none.gguf\n".to_owned(), 1, "error: modelfile: missing FROM"),
        (format!("{text}FOO bar\n"), 1, "unknown instruction `FOO`\n"),
        (format!("{text}PARAMETER temprature 0.2\n"), 1, "`temprature`; did you mean `temperature`?"),
        (format!("{text}PARAMETER num_ctx abc\n"), 1, "`num_ctx`: expected an integer, found `abc`"),
        (format!("{text}PARAMETER mirostat 1\n"), 1, "warning: modelfile: line "),
        (format!("{text}SYSTEM \"\"\"a\nFOO bar\n"), 1, "SYSTEM: missing closing quote"),
        (format!("{text}SYSTEM \"\"\"a\nFOO \"\"\"\nparameter temperature 0.2\n"), 0, "FROM out/x.gguf\n"),
    ] {
        sandbox.write("out/Changed", &changed);
        let ran = sandbox.inspect(&words("verify out/Changed --strict"));
        let report = [&*ran.stdout, &*ran.stderr].concat();
        assert!(ran.code == Some(code) && report.contains(finding), "{report}");
    }
    let report = succeed(sandbox.inspect(&words("verify out/Modelfile --for ollama"))).stdout;
    assert!(report.contains(", with the template of the Modelfile"), "{report}");
    assert!(!report.contains("Ollama replaces"), "{report}");
    sandbox.write("out/Changed", "FROM ./none.gguf\n");
    sandbox
        .inspect(&words("verify out/Changed"))
        .ends_and_says(1, "hint: the Modelfile out/Changed names this file");
    let marks = "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant: {% endif %}";
    let template = format!("tokenizer.chat_template={marks}");
    succeed(sandbox.inspect(&["set", "out/x.gguf", &template, "-o", "out/marks.gguf", "-q"]));
    sandbox.write("out/Changed", "FROM marks.gguf\nTEMPLATE x\n");
    let report = succeed(sandbox.inspect(&words("verify out/Changed"))).stdout;
    assert!(report.contains("missing `PARAMETER stop \"<|im_end|>\"`: answers may not end"), "{report}");
    let again = "llama out/y.gguf --type q8_0 --modelfile out/Modelfile";
    sandbox.convert(&words(again)).ends_and_says(1, "Modelfile");
    assert!(!sandbox.path("out/y.gguf").exists());
    succeed(sandbox.convert(&words(&format!("{again} --force"))));
    assert!(sandbox.text("out/Modelfile").starts_with("FROM ./y.gguf\n"));
    let one = "llama out/z.gguf --type q8_0 --modelfile out/z.gguf";
    sandbox.convert(&words(one)).ends_and_says(2, "two options write to");
    // A folder that the conversion creates.
    succeed(sandbox.convert(&words("llama new/ --type q8_0 --modelfile new/Modelfile")));
    assert!(sandbox.text("new/Modelfile").starts_with("FROM ./"));
    let missing = "llama new/x.gguf --type q8_0 --modelfile none/Modelfile";
    sandbox.convert(&words(missing)).ends_and_says(1, "folder `none` does not exist");
    let plan = format!("plan plan.json {again} --force");
    sandbox.convert(&words(&plan)).ends_and_says(2, "--modelfile cannot be used with plans");
}

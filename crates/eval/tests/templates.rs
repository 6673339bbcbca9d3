//! Templates of public reports, next to what transformers renders.

use std::{fs, path::Path};

use eval::chat::{Chat, Date, Settings, render_chat};

/// `tests/data/templates`: template, messages, arguments, and the text that transformers 5.24 (jinja2 3.1.6) makes of them.
#[test]
fn reported_templates_render_as_in_transformers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/templates");
    let (mut n_templates, mut faults) = (0, Vec::new());
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix("-template.jinja") else { continue };
        n_templates += 1;
        let read = |end: &str| fs::read_to_string(folder.join(format!("{name}-{end}"))).unwrap();
        let arguments: serde_json::Value = serde_json::from_str(&read("kwargs.json")).unwrap();
        let settings = Settings {
            bos: arguments["bos_token"].as_str().unwrap(),
            eos: arguments["eos_token"].as_str().unwrap(),
            generation_prompt: arguments["add_generation_prompt"].as_bool().unwrap(),
            date: Date::FIXED,
        };
        let chat = Chat::parse(&read("messages.json")).unwrap();
        let made = render_chat(&read("template.jinja"), &chat, &settings);
        let expected = read("expected.txt");
        if made.as_ref().ok() != Some(&expected) {
            faults.push(format!("{name}: {made:?}, expected {expected:?}"));
        }
    }
    assert_eq!(n_templates, 25);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

//! Tokenizer routes that the architectures use.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use gguf_models::{ARCHES, WAITING, routes};

/// Adding the architecture that a route waits for requires removing it from the list of those that wait.
#[test]
fn waiting_routes_are_unreachable() {
    for waiting in WAITING {
        assert!(ARCHES.iter().all(|arch| arch.vocab != waiting.route), "{:?}", waiting.route);
        assert!(!waiting.waits_for.is_empty());
    }
}

/// Routes are compared by name, so no two definitions in the sources may have the same one.
#[test]
fn route_names_are_unique() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let models = gguf_testkit::rust_files(&crates.join("models/src"));
    let shared = crates.join("tokenizer/src/huggingface/route.rs");
    let mut names = BTreeSet::new();
    for file in models.into_iter().chain([shared]) {
        let text = fs::read_to_string(&file).unwrap();
        let text = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let text = text.collect::<Vec<_>>().join("\n");
        for start in ["Route::new(\"", "Route { name: \""] {
            for defined in text.split(start).skip(1) {
                let name = defined.split('"').next().unwrap().to_owned();
                assert!(names.insert(name.clone()), "{}: `{name}` is defined twice", file.display());
            }
        }
    }
    let listed: BTreeSet<String> = routes().iter().map(|route| route.name.to_owned()).collect();
    assert_eq!(names, listed);
}

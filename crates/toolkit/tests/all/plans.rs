//! Plans of conversions in parts.

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use gguf_toolkit::{
    FileType, PartNumber, Place,
    convert::{Operation, Planned, WorkerOptions},
    quant::Level,
};
use serde_json::{Value, json};

use crate::conversion;

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut plan = read(path);
    change(&mut plan);
    fs::write(path, plan.to_string()).unwrap();
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Saves a plan of a conversion and returns its path.
fn saved(sandbox: &Path, operation: impl Into<Operation>) -> PathBuf {
    let path = sandbox.join("plan.json");
    Planned::save(&path, operation, &()).unwrap();
    path
}

fn error_of<T>(result: Result<T, gguf_toolkit::Error>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn plan_holds_no_secrets_and_no_settings_of_process() {
    let sandbox = tempfile::tempdir().unwrap();
    let mut convert = conversion(FileType::Q8_0, sandbox.path().join("out.gguf"));
    convert.tensors.rules.pure = true;
    convert.replay.save_recipe = Some(sandbox.path().join("recipe.json"));
    convert.output.force = true;
    convert.output.resume = true;
    convert.output.threads = NonZeroUsize::new(3);
    convert.output.level = Some(Level::detect());
    convert.hub.token = Some("secret".to_owned());
    convert.hub.token_file = Some("secret".into());
    convert.hub.revision = Some("main".to_owned());
    let plan = read(&saved(sandbox.path(), convert.clone()));
    assert!(!plan.to_string().contains("secret"));
    assert_eq!((&plan["version"], &plan["conversion"]["operation"]), (&json!(2), &json!("convert")));
    let mut expected = conversion(FileType::Q8_0, sandbox.path().join("out.gguf"));
    expected.tensors.rules.pure = true;
    expected.hub.revision = Some("main".to_owned());
    assert_eq!(plan["conversion"]["options"], serde_json::to_value(&expected).unwrap());
    assert!(sandbox.path().join("recipe.json").is_file(), "saving a plan saves the recipe");
    // Downloads are stored by a process, not by a plan.
    convert.keep = true;
    let error = error_of(Planned::save(&sandbox.path().join("other.json"), convert, &()));
    assert_eq!(error, "`keep` cannot be used with a plan");
}

#[test]
fn relative_paths_hold_in_folder_of_plan() {
    let sandbox = tempfile::tempdir().unwrap();
    let path = saved(sandbox.path(), conversion(FileType::Q8_0, "never-written.gguf"));
    let here = fs::canonicalize(".").unwrap();
    assert_eq!(fs::canonicalize(Planned::open(&path).unwrap().folder()).unwrap(), here);
    edit(&path, |plan| plan["folder"] = json!(sandbox.path()));
    let plan = Planned::open(&path).unwrap();
    let part = plan.part(PartNumber::new(1, 2).unwrap(), Place::Shared, &WorkerOptions::default(), &());
    let expected = format!("its relative paths start from folder {}", sandbox.path().display());
    assert_eq!(error_of(part), format!("{}: {expected}", path.display()));
}

#[test]
fn other_versions_and_operations_are_refused() {
    let sandbox = tempfile::tempdir().unwrap();
    let path = saved(sandbox.path(), conversion(FileType::Q8_0, sandbox.path().join("out.gguf")));
    let opened = || error_of(Planned::open(&path)).replace(&format!("{}: ", path.display()), "");
    edit(&path, |plan| plan["conversion"]["operation"] = json!("convert_everything"));
    assert!(opened().starts_with("not a plan file: unknown variant `convert_everything`"), "{}", opened());
    edit(&path, |plan| {
        plan["version"] = json!(1);
        plan["arguments"] = json!(["tiny"]);
    });
    assert_eq!(opened(), "expected version `2`, found `1`");
    edit(&path, |plan| {
        plan["version"] = json!(2);
        plan["program"] = json!("gguf-convert 0.0.0");
        plan.as_object_mut().unwrap().remove("arguments");
    });
    let expected = format!("expected program `gguf-toolkit {}`, ", env!("CARGO_PKG_VERSION"));
    assert!(opened().starts_with(&expected), "{}", opened());
}

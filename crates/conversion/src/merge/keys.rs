//! Metadata of a merged model.

use std::path::Path;

use gguf_container::{Metadata, Value};

/// Keys of the model that become keys of its base model.
const OF_BASE: [&str; 8] =
    ["name", "author", "version", "organization", "description", "url", "doi", "repo_url"];

/// Records that adapters, with their scales, were merged into the model that `metadata` describes. The model becomes the base
/// model, and its name and fine-tuning get the names of the adapters. A name that the caller has chosen (`is_named`) stays.
pub(crate) fn add_merged_keys<'a>(
    metadata: &mut Metadata,
    adapters: impl Iterator<Item = (&'a Path, f64)>,
    is_named: bool,
) {
    let (mut names, mut with_scales) = (Vec::new(), Vec::new());
    for (path, scale) in adapters {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let mut name = name.strip_suffix(".gguf").unwrap_or(&name).to_owned();
        if path.starts_with("hf:") {
            // Without the revision.
            name.truncate(name.find('@').unwrap_or(name.len()));
        }
        with_scales.push(if scale == 1.0 { name.clone() } else { format!("{name}={scale}") });
        names.push(name);
    }
    if names.is_empty() {
        return;
    }
    let text = |metadata: &Metadata, key: &str| {
        metadata.get(&format!("general.{key}")).and_then(Value::as_str).map(str::to_owned)
    };
    metadata.retain(|key, _| !key.starts_with("general.base_model."));
    metadata.set("general.base_model.count", 1u32);
    for key in OF_BASE {
        if let Some(value) = text(metadata, key) {
            metadata.set(format!("general.base_model.0.{key}"), value);
        }
    }
    if !is_named {
        for (key, between) in [("name", " + "), ("finetune", "-")] {
            // Without a base name, files are named by `general.name` alone.
            let old = text(metadata, key);
            if key == "name" || text(metadata, "basename").is_some() {
                let parts = old.into_iter().chain(names.iter().cloned()).collect::<Vec<_>>();
                metadata.set(format!("general.{key}"), parts.join(between));
            }
        }
    }
    metadata.set("gguf_tools.merged_adapters", with_scales);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_model_names_base_and_adapters() {
        let mut metadata = Metadata::new();
        metadata.set("general.name", "Llama 3.2 1B Instruct");
        metadata.set("general.basename", "Llama-3.2");
        metadata.set("general.finetune", "Instruct");
        metadata.set("general.base_model.0.name", "Llama 3.2 1B");
        let adapters = [("lora/pirate.gguf", 1.0), ("rhymes", 0.5)];
        let mut named = metadata.clone();
        let paths = || adapters.iter().map(|(path, scale)| (Path::new(path), *scale));
        add_merged_keys(&mut metadata, paths(), false);
        let text = |key: &str| metadata.get(key).map(ToString::to_string).unwrap_or_default();
        assert_eq!(text("general.name"), "Llama 3.2 1B Instruct + pirate + rhymes");
        assert_eq!(text("general.finetune"), "Instruct-pirate-rhymes");
        assert_eq!(text("general.base_model.0.name"), "Llama 3.2 1B Instruct");
        assert_eq!(
            metadata.get("gguf_tools.merged_adapters"),
            Some(&Value::from(vec!["pirate", "rhymes=0.5"]))
        );
        add_merged_keys(&mut named, paths(), true);
        assert_eq!(named.get("general.name").and_then(Value::as_str), Some("Llama 3.2 1B Instruct"));
        let mut remote = Metadata::new();
        add_merged_keys(&mut remote, [(Path::new("hf://org/pirate@main"), 1.0)].into_iter(), true);
        assert_eq!(remote.get("gguf_tools.merged_adapters"), Some(&Value::from(vec!["pirate"])));
        let mut plain = Metadata::new();
        add_merged_keys(&mut plain, std::iter::empty(), false);
        assert!(plain.is_empty());
    }
}

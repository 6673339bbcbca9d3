//! Metadata of a merged model.

use std::path::Path;

use gguf_checkpoint::hub::Repo;
use gguf_container::{Array, Metadata, Value};

/// Keys of the model that become keys of its base model.
const OF_BASE: [&str; 8] =
    ["name", "author", "version", "organization", "description", "url", "doi", "repo_url"];

/// Key that lists merged adapters with their scales.
pub const MERGED_ADAPTERS: &str = "gguf_tools.merged_adapters";

/// Names of the adapters that were merged into a model, each with `=SCALE` unless the scale is 1.
pub fn merged_adapters(metadata: &Metadata) -> Vec<String> {
    match metadata.get(MERGED_ADAPTERS) {
        Some(Value::Array(Array::String(names))) => {
            names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
        }
        _ => Vec::new(),
    }
}

/// Records that adapters with these scales were merged into the model that `metadata` describes. The model
/// becomes the base model, and the adapters' names are added to its name and fine-tuning unless `name` is
/// given. Adapters of an earlier merge stay in the list.
pub(crate) fn add_merged_keys<'a>(
    metadata: &mut Metadata,
    adapters: impl Iterator<Item = (&'a Path, f64)>,
    name: Option<&str>,
) {
    let names = add_adapter_list(metadata, adapters);
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
    if let Some(name) = name {
        metadata.set("general.name", name);
    } else {
        for (key, between) in [("name", " + "), ("finetune", "-")] {
            // Without a base name, files are named by `general.name` only.
            let old = text(metadata, key);
            if key == "name" || text(metadata, "basename").is_some() {
                let parts = old.into_iter().chain(names.iter().cloned()).collect::<Vec<_>>();
                metadata.set(format!("general.{key}"), parts.join(between));
            }
        }
    }
}

/// Adds adapters, with their scales, to the model's list; returns their names.
pub(crate) fn add_adapter_list<'a>(
    metadata: &mut Metadata,
    adapters: impl Iterator<Item = (&'a Path, f64)>,
) -> Vec<String> {
    let mut names = Vec::new();
    let mut with_scales = merged_adapters(metadata);
    for (path, scale) in adapters {
        let name = adapter_name(path);
        with_scales.push(if scale == 1.0 { name.clone() } else { format!("{name}={scale}") });
        names.push(name);
    }
    if !names.is_empty() {
        metadata.set(MERGED_ADAPTERS, with_scales);
    }
    names
}

/// Name of an adapter: that of its file or folder, or of its model on the Hub.
pub fn adapter_name(path: &Path) -> String {
    let remote = path.to_str().filter(|text| Repo::is_address(text)).and_then(|text| Repo::parse(text).ok());
    if let Some(repo) = remote {
        return repo.name().to_owned();
    }
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let ends = [".gguf", ".safetensors"];
    ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name).to_owned()
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
        add_merged_keys(&mut metadata, paths(), None);
        let text = |metadata: &Metadata, key: &str| {
            metadata.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        assert_eq!(text(&metadata, "general.name"), "Llama 3.2 1B Instruct + pirate + rhymes");
        assert_eq!(text(&metadata, "general.finetune"), "Instruct-pirate-rhymes");
        assert_eq!(text(&metadata, "general.base_model.0.name"), "Llama 3.2 1B Instruct");
        assert_eq!(metadata.get(MERGED_ADAPTERS), Some(&Value::from(vec!["pirate", "rhymes=0.5"])));
        add_merged_keys(&mut named, paths(), Some("Captain"));
        assert_eq!(text(&named, "general.name"), "Captain");
        assert_eq!(text(&named, "general.base_model.0.name"), "Llama 3.2 1B Instruct");
        // The second merge adds to the list of the first.
        add_merged_keys(&mut named, [(Path::new("jokes.gguf"), 1.0)].into_iter(), None);
        assert_eq!(text(&named, "general.base_model.0.name"), "Captain");
        assert_eq!(named.get(MERGED_ADAPTERS), Some(&Value::from(vec!["pirate", "rhymes=0.5", "jokes"])));
        for address in ["hf://org/pirate", "hf://org/pirate@main", "hf://org/pirate@refs/pr/1"] {
            let mut remote = Metadata::new();
            add_merged_keys(&mut remote, [(Path::new(address), 1.0)].into_iter(), None);
            assert_eq!(remote.get(MERGED_ADAPTERS), Some(&Value::from(vec!["pirate"])), "{address}");
        }
        let mut plain = Metadata::new();
        add_merged_keys(&mut plain, std::iter::empty(), None);
        assert!(plain.is_empty());
    }
}

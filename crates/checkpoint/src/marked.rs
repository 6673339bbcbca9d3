//! Models that consist of a base model and further files, by which they are recognized, or by a class.

use serde_json::Value as Json;

use crate::{
    Error, FamilyForm, Folder, Listing, Part, Tensor,
    family_form::{Folders, Marked, MarkingKey},
    safetensors,
    small_files::read_object,
};

/// The model that the files of a folder mark, by the `model_type` of its base model, or that the config marks.
pub(crate) fn of(folder: &Folder, listing: &Listing, config: &Json) -> Option<&'static Marked> {
    let model_type = config.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let auto_model = config.pointer("/auto_map/AutoModel").and_then(Json::as_str).unwrap_or_default();
    let has = |file: &&str| listing.has(file) || folder.path().join(file).is_file();
    let marks = |form: &FamilyForm, marked: &Marked| match marked.auto_model {
        Some(class) => auto_model.ends_with(class),
        None => {
            let is_base = marked.folders.is_some() || form.model_types.contains(&model_type);
            is_base && marked.files.iter().all(has)
        }
    };
    folder.known_forms().iter().find_map(|form| form.marked.iter().find(|marked| marks(form, marked)))
}

/// The model that the files next to an adapter make of the one with the config `base`.
pub(crate) fn of_adapter(folder: &Folder, listing: &Listing, base: &Json) -> Option<&'static Marked> {
    let model_type = base.get("model_type").and_then(Json::as_str)?;
    let has_key = |key: &MarkingKey| {
        let object = read_object(folder.path(), key.file).ok();
        let value = object.as_ref().and_then(|object| object.pointer(key.at));
        value.is_some_and(|value| key.text.is_none_or(|text| value == text))
    };
    let forms = folder.known_forms().iter().filter(|form| form.model_types.contains(&model_type));
    forms.flat_map(|form| form.adapters).find(|marked| {
        marked.files.iter().all(|file| listing.has(file)) && marked.key.as_ref().is_none_or(has_key)
    })
}

/// Folders of the config and the tokenizer of the model that the files of a folder mark.
pub(crate) fn folders(folder: &Folder, listing: &Listing) -> Option<Folders> {
    of(folder, listing, &Json::Null)?.folders
}

impl Marked {
    /// True if the file belongs to the model.
    pub(crate) fn has(&self, file: &str) -> bool {
        let sides = [self.config, self.weights].into_iter().flatten();
        self.files.contains(&file) || sides.map(|side| side.file).any(|side| side == file)
    }

    /// Adds the class and the further config to the config of the base model, the latter to the text part if there is one.
    ///
    /// # Errors
    /// [`Error`] of the further config.
    pub fn add_config(&self, folder: &Folder, config: &mut Json) -> Result<(), Error> {
        config["architectures"] = vec![self.class].into();
        let Some(side) = self.config else { return Ok(()) };
        let Json::Object(keys) = read_object(folder.path(), side.file)? else { return Ok(()) };
        let text = if config.get("text_config").is_some_and(Json::is_object) {
            &mut config["text_config"]
        } else {
            config
        };
        for (key, value) in keys {
            add_key(text, format!("{}{key}", side.prefix), value);
        }
        Ok(())
    }

    /// Adds the further tensors, in the order of the file, which is that of `load_file` in safetensors 0.8.
    pub(crate) fn add_weights(
        &self,
        folder: &Folder,
        listing: &Listing,
        parts: &mut Vec<Part>,
        tensors: Vec<Tensor>,
    ) -> Result<Vec<Tensor>, Error> {
        let Some(side) = self.weights else { return Ok(tensors) };
        if !listing.has(side.file) {
            return Err(Error::MissingFile { file: side.file.to_owned() });
        }
        let part = listing.open(folder.path(), side.file)?;
        let mut added = safetensors::parse(&part)?;
        added.sort_by_key(|tensor| tensor.begin);
        for tensor in &mut added {
            tensor.name = format!("{}{}", side.prefix, tensor.name);
            tensor.part = parts.len();
            if let Some(other) = tensors.iter().find(|other| other.name == tensor.name) {
                let first = parts.get(other.part).map_or_else(String::new, |part| part.file.clone());
                return Err(Error::DuplicateTensor { tensor: tensor.name.clone(), first, second: part.file });
            }
        }
        parts.push(part);
        let (mut all, others) = if self.weights_first { (added, tensors) } else { (tensors, added) };
        all.extend(others);
        Ok(all)
    }
}

/// Adds a key, or those of an object one by one, so that unread ones are reported.
fn add_key(config: &mut Json, name: String, value: Json) {
    match value {
        Json::Object(inner) => {
            inner.into_iter().for_each(|(key, value)| add_key(config, format!("{name}.{key}"), value));
        }
        value => config[name] = value,
    }
}

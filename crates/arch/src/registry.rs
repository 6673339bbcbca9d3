//! The table of architectures.

use crate::ArchError;
use crate::config::Hparams;
use crate::config::classes::ConfigClass;
use crate::keys::Keys;
use crate::models;
use crate::tensors::rules::TensorRule;
use crate::vocab::Route;

/// Every architecture. What is not in this table is not supported.
pub const ARCHES: &[Arch] = &[models::llama::LLAMA];

/// What a model is, as data and two functions.
#[derive(Clone, Copy)]
pub struct Arch {
    /// The name that `general.architecture` holds.
    pub name: &'static str,
    /// Class names in `architectures` of `config.json`.
    pub classes: &'static [Class],
    /// A public checkpoint on the Hugging Face Hub.
    pub example: &'static str,
    /// The config classes that transformers reads its files with; a file whose `model_type` no
    /// class of any architecture has is taken as it stands.
    pub configs: &'static [ConfigClass],
    /// Keys of `config.json` without which nothing can be said about the model. The reference
    /// takes transformers' defaults for these as well and writes a file that does not load.
    pub needs: &'static [&'static str],
    /// The tensor table, in parts that architectures share.
    pub tensors: &'static [&'static [TensorRule]],
    /// The output tensor whose rows are the tokens.
    pub embedding: &'static str,
    /// Writes the hyperparameter keys.
    pub keys: fn(&Hparams, &mut Keys) -> Result<(), ArchError>,
    /// Tensors that are computed from the config; they come before all others.
    pub computed: fn(&Hparams) -> Result<Vec<Computed>, ArchError>,
    /// What kinds of tokenizers it comes with.
    pub vocab: Route,
}

/// A vector that is computed from the config: its name in the file and its values.
pub type Computed = (&'static str, Vec<f32>);

/// A class name, and what its checkpoints leave out at the start of every tensor name.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    /// The class name.
    pub name: &'static str,
    /// What is put before the names of its tensors (`model.` for a class that is only the inner
    /// part of the one that the table was made for).
    pub prefix: &'static str,
}

impl Class {
    /// A class whose tensors are named as in the table.
    pub const fn new(name: &'static str) -> Class {
        Class { name, prefix: "" }
    }
}

/// The architecture of a class name.
///
/// # Errors
///
/// [`ArchError::UnknownClass`] with the three known classes that have the most similar names.
pub fn find(class: &str) -> Result<(&'static Arch, Class), ArchError> {
    let classes = || ARCHES.iter().flat_map(|arch| arch.classes.iter().map(move |class| (arch, *class)));
    if let Some(found) = classes().find(|(_, known)| known.name == class) {
        return Ok(found);
    }
    let mut nearest: Vec<&'static str> = classes().map(|(_, known)| known.name).collect();
    nearest.sort_by_key(|known| (distance(known, class), *known));
    nearest.truncate(3);
    Err(ArchError::UnknownClass { class: class.into(), nearest })
}

/// Edits (insert, remove, replace a letter, without regard to case) from one name to another.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.to_lowercase().chars().take(200).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lower_case() {
        let mut configs: Vec<&str> =
            ARCHES.iter().flat_map(|arch| arch.configs).map(|class| class.model_type).collect();
        let mut names: Vec<&str> = ARCHES.iter().map(|arch| arch.name).collect();
        let mut classes: Vec<&str> =
            ARCHES.iter().flat_map(|arch| arch.classes).map(|class| class.name).collect();
        for list in [&mut names, &mut classes, &mut configs] {
            let n = list.len();
            list.sort_unstable();
            list.dedup();
            assert_eq!(list.len(), n);
        }
        assert!(names.iter().all(|name| {
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_')
        }));
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("Llama", "llama"), 0);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn an_unknown_class_names_near_ones() {
        let Err(ArchError::UnknownClass { nearest, .. }) = find("MistalForCausalLM") else { panic!() };
        assert_eq!(nearest.first(), Some(&"MistralForCausalLM"));
    }
}

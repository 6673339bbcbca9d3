//! Files of families of diffusion models.
//!
//! A file is TOML with a table `[[model]]` for each row, whose keys are the fields of [`Diffusion`]. `like` takes all other fields from
//! the first model with an architecture, and a string as `modules`, or in that list, only its modules.

use serde::Deserialize;
use toml::{Table, Value};

use crate::diffusion::Diffusion;

/// Models that take fields from one another in a chain.
const MAX_CHAIN: usize = 8;

/// A file of families that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FamilyFileError(pub String);

/// Reads the texts of files of families. The result is in their order, which is that of detection.
///
/// # Errors
/// A text that is not TOML, unknown keys, a model without an architecture or without tensors that identify it, names with different
/// placeholders, an unknown architecture in `like` or `modules`.
///
/// # Examples
/// ```
/// let text = r#"
///     [[model]]
///     architecture = "mine"
///     detect = [["mine.in.weight", "mine.out.weight"]]
///     unquantized = ["mine.in.", "mine.out."]
///
///     [[model]]
///     architecture = "mine2"
///     like = "mine"
///     detect = [["mine2.in.weight"]]
/// "#;
/// let rows = gguf_layout::read_diffusion(&[text])?;
/// assert_eq!(rows[1].unquantized, rows[0].unquantized);
///
/// let error = gguf_layout::read_diffusion(&["[[model]]\narch = 1"]).unwrap_err();
/// assert!(error.to_string().starts_with("model 1: unknown field `arch`"));
/// # Ok::<(), gguf_layout::FamilyFileError>(())
/// ```
pub fn read_diffusion(texts: &[&str]) -> Result<Vec<Diffusion>, FamilyFileError> {
    let failed = |error: toml::de::Error| FamilyFileError(error.to_string().trim_end().to_owned());
    let mut models: Vec<(usize, Table)> = Vec::new();
    for text in texts {
        let mut table: Table = text.parse().map_err(failed)?;
        let Some(Value::Array(rows)) = table.remove("model") else {
            return Err(FamilyFileError("no table `[[model]]`".to_owned()));
        };
        if let Some(key) = table.keys().next() {
            let message = format!("unknown key `{key}`; facts of a model are below `[[model]]`");
            return Err(FamilyFileError(message));
        }
        for (index, row) in rows.into_iter().enumerate() {
            models.push((index + 1, row.try_into().map_err(failed)?));
        }
    }
    let tables: Vec<&Table> = models.iter().map(|(_, row)| row).collect();
    let rows = models.iter().map(|(number, row)| {
        read(row, &tables).map_err(|message| FamilyFileError(format!("model {number}: {message}")))
    });
    rows.collect()
}

/// A row with the fields that it takes from others.
fn read(row: &Table, all: &[&Table]) -> Result<Diffusion, String> {
    let full = with_bases(row, all, MAX_CHAIN)?;
    let row = Diffusion::deserialize(Value::Table(full)).map_err(|error| error.message().to_owned())?;
    if row.name.is_empty() {
        return Err("missing key `architecture`".to_owned());
    }
    if row.detect.is_empty() && row.classes.is_empty() || row.detect.iter().any(Vec::is_empty) {
        return Err("missing names in `detect` or `classes`, which identify the model".to_owned());
    }
    Ok(row)
}

/// The fields of `row` and of the models that it names.
fn with_bases(row: &Table, all: &[&Table], depth: usize) -> Result<Table, String> {
    let base = |key: &str, name: &Value| {
        let failed = |what| Err(format!("`{key} = {}`: {what}", name.as_str().unwrap_or_default()));
        let is_it = |other: &&&Table| other.get("architecture") == Some(name) && **other != row;
        match all.iter().find(is_it) {
            Some(other) if depth > 0 => with_bases(other, all, depth - 1),
            Some(_) => failed("the models refer to one another"),
            None => failed("no other model has this architecture"),
        }
    };
    let mut row_fields = row.clone();
    let listed = match row.get("modules") {
        Some(name @ Value::String(_)) => std::slice::from_ref(name),
        Some(Value::Array(list)) => list,
        _ => &[],
    };
    if listed.iter().any(Value::is_str) {
        let mut modules = Vec::new();
        for entry in listed {
            match entry {
                name @ Value::String(_) => match base("modules", name)?.remove("modules") {
                    Some(Value::Array(list)) => modules.extend(list),
                    other => modules.extend(other),
                },
                rule => modules.push(rule.clone()),
            }
        }
        row_fields.insert("modules".to_owned(), Value::Array(modules));
    }
    let Some(name) = row_fields.remove("like") else { return Ok(row_fields) };
    let mut fields = base("like", &name)?;
    fields.extend(row_fields);
    Ok(fields)
}

//! The list of supported architectures.

use serde::Serialize;

use crate::table::table;

/// A supported architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListedArchitecture {
    /// Its name, the value of `general.architecture`.
    pub name: &'static str,
    /// Classes of `config.json` that it converts.
    pub classes: Vec<&'static str>,
    /// A public checkpoint.
    pub example: &'static str,
    /// Reason why files cannot be exported to a folder; `None` if they can.
    pub not_exportable: Option<&'static str>,
}

/// Lists every architecture that is converted.
///
/// # Examples
/// ```
/// let listed = gguf_toolkit::architecture_list::list();
/// assert!(listed.iter().any(|row| row.name == "llama" && row.classes.contains(&"LlamaForCausalLM")));
/// ```
pub fn list() -> Vec<ListedArchitecture> {
    let listed = gguf_models::ARCHES.iter().map(|arch| ListedArchitecture {
        name: arch.name,
        classes: arch.classes.iter().map(|class| class.name).collect(),
        example: arch.example,
        not_exportable: arch.export.obstacle(),
    });
    listed.collect()
}

/// The list as a table.
pub fn text(listed: &[ListedArchitecture]) -> String {
    let mut rows = vec![["architecture", "example", "export", "classes"].map(str::to_owned).to_vec()];
    rows.extend(listed.iter().map(|row| {
        let export = row.not_exportable.map_or("yes".to_owned(), |reason| format!("no: {reason}"));
        vec![row.name.into(), row.example.into(), export, row.classes.join(", ")]
    }));
    table(&rows, &[])
}

//! The list of file types in `--help`.

use convert::recipes::RECIPES;

use super::table::table;

/// The examples, then every file type of the table of recipes.
pub(in crate::commands) fn types_help(examples: &str) -> String {
    let rows: Vec<Vec<String>> = RECIPES
        .iter()
        .map(|recipe| {
            let number = if recipe.copy { String::new() } else { recipe.file_type.id().to_string() };
            let about = match recipe.alias_of {
                Some(other) => format!("another name of {other}"),
                None if recipe.needs_imatrix => format!("{}; needs an importance matrix", recipe.about),
                None => recipe.about.to_owned(),
            };
            vec![format!("  {}", recipe.name), number, about]
        })
        .collect();
    format!("{examples}\n\nTypes:\n{}", table(&rows, &[1]))
}

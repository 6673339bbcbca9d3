//! The tables in words, for `--help`.

use super::{PROGRAMS, To};

/// A line of `--help`: which options of llama.cpp's program a verb takes in its spelling. None for a verb that stands for no
/// program.
pub fn also(binary: &str, verb: Option<&str>) -> Option<String> {
    let program = PROGRAMS.iter().find(|it| it.binary == binary && it.verb == verb)?;
    let foreign =
        program.options().filter(|(_, to)| to.is_accepted() && !matches!(to, To::Same | To::Whole(_)));
    let names = foreign.filter_map(|(spelled, _)| spelled.names().next());
    let names: Vec<&str> = names.filter(|name| *name != "-h").collect();
    let mut text = format!("Also called as {}", program.name);
    if !names.is_empty() {
        text += &format!(", with its {}", names.join(", "));
    }
    Some(text + "; docs/coming-from-llama-cpp.md says what becomes of every option that it has.")
}

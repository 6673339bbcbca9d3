//! Names of file types and formats on the command line, with advice for names that other programs have.

use std::sync::LazyLock;

use gguf_toolkit::{
    DType, FORK_TYPES, FileType, ForeignFormat, Recipe, arguments::OneOf, foreign_formats, types,
};

/// Advice for names that are not file types of llama.cpp: tensor types, publishers' names, types of forks.
pub(in crate::commands) fn type_tip(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    if Recipe::from_name(&name).is_ok() {
        return None;
    }
    if name == "mxfp4" {
        return Some(
            "use mxfp4_moe for the experts, or --tensor-type PATTERN=mxfp4 for other tensors".to_owned(),
        );
    }
    if DType::ALL.iter().any(|dtype| dtype.name().eq_ignore_ascii_case(&name)) {
        return Some(format!("{name} is a tensor type: use --tensor-type PATTERN={name}"));
    }
    // Publishers' names: a mix with the embedding and the output in 8 bits.
    if let Some(base) = name.strip_suffix("_l").or_else(|| name.strip_suffix("_xl"))
        && let Some(mix) =
            [format!("{base}_m"), base.to_owned()].iter().find(|mix| Recipe::from_name(mix).is_ok())
    {
        return Some(format!(
            "for {name}, use {mix} with --token-embedding-type q8_0 --output-tensor-type q8_0"
        ));
    }
    let fork = FORK_TYPES.iter().find(|fork| fork.name == name)?;
    Some(format!("{name} is a type of {} that llama.cpp does not have", fork.fork))
}

/// The name of a type with another spelling, for example `4bit`; `None` for numbers.
fn other_spelling(given: &str) -> Option<&'static str> {
    let is_number = given.parse::<u32>().is_ok();
    Recipe::from_name(given).ok().filter(|_| !is_number).map(|recipe| recipe.name)
}

/// Lines about types that were named by another word, for example `4bit`.
pub(in crate::commands) fn renamed<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let line = |given: &str| {
        let name = other_spelling(given).filter(|name| !name.eq_ignore_ascii_case(given))?;
        Some(format!("type `{given}` is {}", name.to_ascii_lowercase()))
    };
    words.into_iter().flat_map(|word| word.split(',')).filter_map(line).collect()
}

/// A file type that can be made of a checkpoint, by its name. Numbers are refused: in llama.cpp's programs
/// `-t 8` is a number of threads.
pub(in crate::commands) fn file_type() -> OneOf<&'static Recipe> {
    static NAMES: LazyLock<Vec<(String, &Recipe)>> = LazyLock::new(|| {
        let recipes = types().iter().filter(|recipe| !recipe.copy);
        recipes.map(|recipe| (recipe.name.to_ascii_lowercase(), recipe)).collect()
    });
    OneOf {
        other: other_spelling,
        names: NAMES.iter().map(|(name, recipe)| (name.as_str(), *recipe)).collect(),
        tip: |given| {
            if given.eq_ignore_ascii_case("copy") {
                return Some("use f32, f16 or bf16 to keep the weights of a checkpoint".to_owned());
            }
            if let Some(tip) = type_tip(given) {
                return Some(tip);
            }
            given.parse::<u64>().ok()?;
            let of_type = Recipe::from_name(given).map(|recipe| {
                format!("; file type {given} is `--type {}`", recipe.name.to_ascii_lowercase())
            });
            Some(format!("{given} threads are `--threads {given}`{}", of_type.unwrap_or_default()))
        },
    }
}

/// A file type that can be made of a GGUF file, by its name; COPY as well.
pub(in crate::commands) fn output_type() -> OneOf<&'static Recipe> {
    let OneOf { mut names, other, tip } = file_type();
    names.extend(types().iter().filter(|recipe| recipe.copy).map(|recipe| (recipe.name, recipe)));
    OneOf { names, other, tip }
}

/// The same as [`file_type`], for a projector.
pub(in crate::commands) fn mmproj_type() -> OneOf<FileType> {
    let OneOf { names, other, tip } = file_type();
    OneOf { names: names.into_iter().map(|(name, recipe)| (name, recipe.into())).collect(), other, tip }
}

/// The same as [`file_type`], or `auto`.
pub(in crate::commands) fn type_name() -> OneOf<FileType> {
    let OneOf { mut names, other, tip } = mmproj_type();
    names.push(("auto", FileType::Auto));
    OneOf { names, other, tip }
}

/// Format of the output; `None` for GGUF. With its own name, so that it is one value of an option.
pub(in crate::commands) type OutputFormat = Option<&'static ForeignFormat>;

/// A format of the output.
pub(in crate::commands) fn output_format() -> OneOf<OutputFormat> {
    let foreign = foreign_formats().iter().map(|format| (format.name, Some(format)));
    OneOf {
        other: |_| None,
        names: [("gguf", None)].into_iter().chain(foreign).collect(),
        tip: |given| {
            let is_folder =
                ["hf", "transformers", "safetensors"].contains(&given.to_ascii_lowercase().as_str());
            is_folder.then(|| "use `gguf-convert export` to write a checkpoint folder".to_owned())
        },
    }
}

//! Smaller files than one in which row lengths do not allow the types of the recipe.

use std::path::PathBuf;

use gguf_conversion::{
    FileOf, Input, OutputRequest, PlannedFile, Request,
    recipes::{Category, Recipe, TensorFacts, TensorType},
};
use gguf_types::{DType, Words, words};

use crate::{settings::Settings, text::human_bytes};

/// Types whose blocks fit all rows that are multiples of 32, the largest first.
const NARROW: &[DType] = &[DType::Q8_0, DType::Q5_1, DType::Q5_0, DType::Q4_1, DType::IQ4_NL, DType::Q4_0];

/// True if a file is at least 5 % smaller than another.
fn is_worthwhile(length: u64, n_bytes: u64) -> bool {
    length <= n_bytes - n_bytes / 20
}

/// For each file type with fallbacks, its name and what gives a smaller file: another file type without any, or an option for the
/// tensors that fall back. Each is planned, so that the advice holds.
pub fn advice<I: Input>(
    input: &I,
    settings: &Settings,
    files: &[(PathBuf, &PlannedFile)],
) -> Vec<(String, Words)> {
    let models = || files.iter().map(|(_, file)| *file).filter(|file| file.of == FileOf::Model);
    let mut found: Vec<(String, Words)> = Vec::new();
    for file in models().filter(|_| !settings.decides_types()) {
        let name = file.recipe.canonical_name();
        if !has_fallback(file) || found.iter().any(|(known, _)| known == name) {
            continue;
        }
        let same = models().filter(|other| other.recipe.name == file.recipe.name);
        let n_bytes = same.map(|file| file.plan.file_len()).sum();
        let request = settings.request();
        let better =
            other_type(input, &request, n_bytes).or_else(|| narrower(input, &request, file, n_bytes));
        found.extend(better.map(|better| (name.to_owned(), better)));
    }
    found
}

fn has_fallback(file: &PlannedFile) -> bool {
    file.choices.iter().any(|choice| choice.fallback.is_some())
}

/// Length of the file that a request makes, if it has no fallback and needs no importance matrix that is missing.
fn length<I: Input>(input: &I, recipe: &'static Recipe, request: &Request<'_>) -> Option<u64> {
    let files = input.plan(&OutputRequest::by_rules(recipe), request).ok()?;
    files.iter().all(|file| !has_fallback(file)).then(|| files.iter().map(|file| file.plan.file_len()).sum())
}

/// The largest file of another type that is clearly smaller.
fn other_type<I: Input>(input: &I, request: &Request<'_>, n_bytes: u64) -> Option<Words> {
    let smaller = NARROW.iter().filter_map(|dtype| {
        let recipe = Recipe::from_name(dtype.name()).ok()?;
        let length = length(input, recipe, request).filter(|length| is_worthwhile(*length, n_bytes))?;
        Some((length, recipe))
    });
    let (length, recipe) = smaller.max_by_key(|(length, _)| *length)?;
    Some(words!("`{}` gives a file of {}", recipe.canonical_name(), human_bytes(length)))
}

/// The option for the kind of tensor that falls back in most bytes.
fn narrower<I: Input>(input: &I, request: &Request<'_>, file: &PlannedFile, n_bytes: u64) -> Option<Words> {
    let tensors = input.tensors(file.recipe);
    let fallen = file.choices.iter().filter(|choice| choice.fallback.is_some());
    let largest = fallen.max_by_key(|choice| tensors[choice.tensor].shape.n_elems())?;
    let tensor: &TensorFacts<'_> = &tensors[largest.tensor];
    let smaller = |dtype: &&DType| dtype.bits_per_elem() < largest.dtype.bits_per_elem();
    NARROW.iter().filter(smaller).find_map(|dtype| {
        let (mut request, name) = (request.clone(), dtype.name());
        let option = match Category::of(tensor.name) {
            Category::TokenEmbd => {
                request.overrides.token_embedding_type = Some(*dtype);
                words!("`[-token-embedding-type {}]`", name)
            }
            _ => {
                let part = gguf_types::layer_and_part(tensor.name).map_or(tensor.name, |(_, part)| part);
                let part = part.strip_suffix(".weight").unwrap_or(part);
                request.overrides.tensor_types.push(TensorType::parse(&format!("{part}={name}")).ok()?);
                words!("`[-tensor-type {}={}]`", part, name)
            }
        };
        let files = input.plan(&OutputRequest::by_rules(file.recipe), &request).ok()?;
        let length: u64 = files.iter().map(|file| file.plan.file_len()).sum();
        is_worthwhile(length, n_bytes).then(|| option + words!(" gives a file of {}", human_bytes(length)))
    })
}

//! Compares `general.file_type` with the contents of a file.

use gguf_container::{Metadata, Value};
use gguf_layout::Families;
use gguf_types::DType;

use super::{
    Assignment, CHOSEN_TYPES_KEY, GUESSED, ModelFacts, Overrides, RECIPES, Reason, Recipe, TensorFacts,
    assign, reference_order,
};

/// Calibration methods with their versions, as named in files. The version changes with every change of the
/// resulting bytes.
pub const CALIBRATION_METHODS: [&str; 4] = ["cal3", "cbs5", "cat1", "cbt2"];

/// Key that names the calibration of a file.
pub const CALIBRATION_KEY: &str = "gguf_tools.calibration";

/// Relation between the stated file type and the tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum StatedType {
    /// The tensors match the mix, apart from options: options may change the type of any tensor.
    Agrees {
        /// Name of the mix.
        name: &'static str,
    },
    /// The key is missing.
    Absent,
    /// The file has no matrices, and only matrices determine a file type.
    NoMatrices,
    /// Unknown number.
    Unknown {
        /// The number.
        id: u64,
    },
    /// No matrix has a type of the mix, and most have one that it never assigns.
    Differs {
        /// Name of the stated mix.
        name: &'static str,
        /// Expected type of most weights.
        expected: DType,
        /// Type of most weights.
        found: DType,
    },
    /// No matrix has a type of the mix, because the types were chosen for a size.
    Chosen {
        /// Name of the stated mix, which set the target size.
        name: &'static str,
        /// Type of most weights.
        found: DType,
    },
    /// No matrix has the type that the mix is named after, although the tensors follow its rules: MXFP4_MOE
    /// only assigns it to experts.
    WithoutOwn {
        /// Name of the stated mix.
        name: &'static str,
        /// Type of its name.
        expected: DType,
        /// Type of most weights.
        found: DType,
    },
    /// The types are exactly those of another mix, not those of the stated one.
    OfOther {
        /// Name of the stated mix.
        name: &'static str,
        /// Name of the other mix.
        other: &'static str,
    },
}

/// Compares the stated file type with the types of the tensors.
pub fn stated_type(families: &Families, metadata: &Metadata, tensors: &[TensorFacts<'_>]) -> StatedType {
    let (name, default) = match named_mix(metadata) {
        None => return StatedType::Absent,
        Some(Err(id)) => return StatedType::Unknown { id },
        Some(Ok(mix)) => mix,
    };
    let matrices: Vec<&TensorFacts<'_>> =
        tensors.iter().filter(|tensor| tensor.shape.n_dims_effective() > 1).collect();
    let elems = |of: &dyn Fn(DType) -> bool| -> u64 {
        let sizes = matrices.iter().filter(|tensor| of(tensor.dtype)).map(|tensor| tensor.shape.n_elems());
        sizes.fold(0, u64::saturating_add)
    };
    let most = DType::ALL.iter().copied().max_by_key(|dtype| elems(&|found| found == *dtype));
    let Some(found) = most.filter(|_| !matrices.is_empty()) else { return StatedType::NoMatrices };
    // The rules of mixes count tensors in the reference's order.
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name).collect();
    let in_order: Vec<TensorFacts<'_>> = reference_order(&names).into_iter().map(|at| tensors[at]).collect();
    let chain: Vec<DType> = stand_ins(default).collect();
    let as_ruled = |recipe: &'static Recipe| shares(families, recipe, metadata, &in_order);
    let stated = own_names().find(|recipe| recipe.name == name).map_or(0.0, as_ruled);
    // Rows that do not fill blocks of the type cannot have it.
    let fits = |tensor: &&TensorFacts<'_>| tensor.shape.row_elems().is_multiple_of(default.block_elems());
    let is_possible = stated < 0.5 || matrices.iter().any(fits);
    if is_possible && elems(&|dtype| chain.contains(&dtype)) == 0 {
        return match stated {
            _ if is_calibrated(metadata) || metadata.get(CHOSEN_TYPES_KEY).is_some() => {
                StatedType::Chosen { name, found }
            }
            0.5.. => StatedType::WithoutOwn { name, expected: default, found },
            _ => StatedType::Differs { name, expected: default, found },
        };
    }
    let alternatives = own_names().filter(|recipe| recipe.name != name && recipe.default == default);
    match alternatives.filter(|_| stated < 1.0).find(|recipe| as_ruled(recipe) == 1.0) {
        Some(other) => StatedType::OfOther { name, other: other.name },
        None => StatedType::Agrees { name },
    }
}

/// True if the importance matrix named in the file is calibration: one of [`CALIBRATION_METHODS`] in any
/// version, and hex digits.
fn is_calibrated(metadata: &Metadata) -> bool {
    let is_all = |text: &str, of: fn(&u8) -> bool| !text.is_empty() && text.as_bytes().iter().all(of);
    let names_method = |key: &str| {
        let text = metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        let Some((method, digest)) = text.split_once('-') else { return false };
        let versions = CALIBRATION_METHODS
            .iter()
            .filter_map(|own| method.strip_prefix(own.trim_end_matches(|c: char| c.is_ascii_digit())));
        is_all(digest, u8::is_ascii_hexdigit)
            && versions.into_iter().any(|version| is_all(version, u8::is_ascii_digit))
    };
    names_method("quantize.imatrix.file") || names_method(CALIBRATION_KEY)
}

/// Warning for a planned file in which no matrix has the type of the file type's name.
pub(crate) fn label_warning(
    families: &Families,
    metadata: &Metadata,
    tensors: &[TensorFacts<'_>],
) -> Option<String> {
    // Cheaper than comparing with the rules of all mixes, which is rarely needed.
    let (_, default) = named_mix(metadata)?.ok()?;
    let has = |dtype: DType| {
        tensors.iter().any(|tensor| tensor.dtype == dtype && tensor.shape.n_dims_effective() > 1)
    };
    if stand_ins(default).any(has) {
        return None;
    }
    match stated_type(families, metadata, tensors) {
        StatedType::WithoutOwn { name, expected, found } => Some(format!(
            "{name}: no tensor becomes {expected}; by the rules of this file type most weights become {found}"
        )),
        StatedType::Differs { name, expected, found } => Some(format!(
            "{name}: no tensor becomes {expected}, most weights become {found}; `general.file_type` will not match the tensors"
        )),
        _ => None,
    }
}

/// Name and main type of the mix that `general.file_type` states; its number if it is unknown.
fn named_mix(metadata: &Metadata) -> Option<Result<(&'static str, DType), u64>> {
    let id = metadata.get("general.file_type").and_then(Value::as_u64)?;
    let number = id & !u64::from(GUESSED);
    // NVFP4 has a file type but no recipe.
    if number == u64::from(DType::NVFP4.file_type()) {
        return Some(Ok(("NVFP4", DType::NVFP4)));
    }
    let recipe = own_names().find(|recipe| u64::from(recipe.file_type.id()) == number);
    Some(recipe.map(|recipe| (recipe.name, recipe.default)).ok_or(id))
}

/// A type and its replacements for rows that do not fill its blocks.
fn stand_ins(dtype: DType) -> impl Iterator<Item = DType> {
    std::iter::successors(Some(dtype), |dtype| dtype.smaller_block())
}

/// Recipes without aliases.
fn own_names() -> impl Iterator<Item = &'static Recipe> {
    RECIPES.iter().filter(|recipe| recipe.alias_of.is_none() && !recipe.copy)
}

/// Shares of tensors that have the recipe's type, with and without an importance matrix.
fn shares(
    families: &Families,
    recipe: &'static Recipe,
    metadata: &Metadata,
    tensors: &[TensorFacts<'_>],
) -> f64 {
    let Ok(model) = ModelFacts::of_file(families, metadata, tensors) else { return 0.0 };
    let share = |has_imatrix| {
        let overrides = Overrides { has_imatrix, ..Overrides::default() };
        let made = assign(recipe, &model, tensors, &overrides).unwrap_or_default();
        // A diffusion model has many tensors that keep their type in any mix.
        let is_kept = |made: &Assignment| model.diffusion.is_some() && matches!(made.reason, Reason::Kept(_));
        let chosen = || made.iter().zip(tensors).filter(|(made, _)| !is_kept(made));
        let same = chosen().filter(|(made, tensor)| made.dtype == tensor.dtype).count();
        same as f64 / chosen().count().max(1) as f64
    };
    share(false).max(share(true))
}

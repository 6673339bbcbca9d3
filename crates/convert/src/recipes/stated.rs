//! Whether `general.file_type` says what is in a file.

use gguf::{Metadata, Value};
use tensor::DType;

use super::{GUESSED, ModelFacts, Overrides, RECIPES, Recipe, TensorFacts, assign, reference_order};

/// What the stated file type and the tensors have to do with each other.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum StatedType {
    /// The tensors are of such a mix, as far as can be told: options may change the type of any tensor.
    Agrees {
        /// The name of the mix.
        name: &'static str,
    },
    /// There is no such key.
    Absent,
    /// There are no matrices, of which alone a file type speaks.
    NoMatrices,
    /// A number that stands for nothing.
    Unknown {
        /// The number.
        id: u64,
    },
    /// No matrix has a type of the mix, and most have one that it never gives them.
    Differs {
        /// The name of the mix that is stated.
        name: &'static str,
        /// The type that most weights would have.
        expected: DType,
        /// The type that most weights have.
        found: DType,
    },
    /// The types are those that another mix gives to every tensor, and not those of the stated one.
    OfOther {
        /// The name of the mix that is stated.
        name: &'static str,
        /// The name of the other.
        other: &'static str,
    },
}

/// Compares the stated file type with the types of the tensors.
pub fn stated_type(metadata: &Metadata, tensors: &[TensorFacts<'_>]) -> StatedType {
    let Some(id) = metadata.get("general.file_type").and_then(Value::as_u64) else {
        return StatedType::Absent;
    };
    let number = id & !u64::from(GUESSED);
    // NVFP4 has a number and no recipe: nothing is quantized to it.
    let (name, default) = if number == u64::from(DType::NVFP4.file_type()) {
        ("NVFP4", DType::NVFP4)
    } else {
        match own_names().find(|recipe| u64::from(recipe.file_type.id()) == number) {
            Some(recipe) => (recipe.name, recipe.default),
            None => return StatedType::Unknown { id },
        }
    };
    let matrices: Vec<&TensorFacts<'_>> =
        tensors.iter().filter(|it| it.shape.n_dims_effective() > 1).collect();
    let elems = |of: &dyn Fn(DType) -> bool| -> u64 {
        let sizes = matrices.iter().filter(|it| of(it.dtype)).map(|it| it.shape.n_elems());
        sizes.fold(0, u64::saturating_add)
    };
    let most = DType::ALL.iter().copied().max_by_key(|dtype| elems(&|it| it == *dtype));
    let Some(found) = most.filter(|_| !matrices.is_empty()) else { return StatedType::NoMatrices };
    // The rules of mixes count tensors in the order in which the reference goes through them.
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name).collect();
    let in_order: Vec<TensorFacts<'_>> = reference_order(&names).into_iter().map(|at| tensors[at]).collect();
    // The type of the mix, or what stands in for it where rows are no whole blocks.
    let chain: Vec<DType> = std::iter::successors(Some(default), |dtype| dtype.smaller_block()).collect();
    let as_ruled = |recipe: &'static Recipe| shares(recipe, metadata, &in_order);
    let stated = own_names().find(|recipe| recipe.name == name).map_or(0.0, as_ruled);
    if elems(&|dtype| chain.contains(&dtype)) == 0 && stated < 0.5 {
        return StatedType::Differs { name, expected: default, found };
    }
    let others = own_names().filter(|recipe| recipe.name != name && recipe.default == default);
    match others.filter(|_| stated < 1.0).find(|recipe| as_ruled(recipe) == 1.0) {
        Some(other) => StatedType::OfOther { name, other: other.name },
        None => StatedType::Agrees { name },
    }
}

/// Recipes under their own names.
fn own_names() -> impl Iterator<Item = &'static Recipe> {
    RECIPES.iter().filter(|recipe| recipe.alias_of.is_none() && !recipe.copy)
}

/// The share of tensors that have the type that the rules of a recipe give them, with an importance matrix or without.
fn shares(recipe: &'static Recipe, metadata: &Metadata, tensors: &[TensorFacts<'_>]) -> f64 {
    let Ok(model) = ModelFacts::from_metadata(metadata) else { return 0.0 };
    let share = |has_imatrix| {
        let overrides = Overrides { has_imatrix, ..Overrides::default() };
        let made = assign(recipe, &model, tensors, &overrides).unwrap_or_default();
        let same = made.iter().zip(tensors).filter(|(made, tensor)| made.dtype == tensor.dtype).count();
        same as f64 / tensors.len().max(1) as f64
    };
    share(false).max(share(true))
}

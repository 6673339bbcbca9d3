//! Applies the rules to tensors in order, with the counts that they depend on.

use gguf_types::DType;

use super::{
    Category, FileType, ModelFacts, Overrides, Reason, Recipe, RecipeError, TensorFacts,
    order::layer_of,
    rules::{self, Rule, When},
};

/// State of the rules after the tensors so far (`quantize_state_impl`).
pub(super) struct Chooser<'a> {
    recipe: &'a Recipe,
    model: &'a ModelFacts,
    overrides: &'a Overrides,
    tied: bool,
    n_values: u32,
    i_values: u32,
    i_down: u32,
    i_gate: u32,
    i_up: u32,
}

/// Position `i` of `n`.
type Place = (i64, i64);

impl<'a> Chooser<'a> {
    /// Counts needed before the first choice (`init_quantize_state_counters`).
    pub(super) fn new(
        recipe: &'a Recipe,
        model: &'a ModelFacts,
        overrides: &'a Overrides,
        tensors: &[TensorFacts<'_>],
    ) -> Self {
        let categories = || tensors.iter().map(|tensor| Category::of(tensor.name));
        Chooser {
            recipe,
            model,
            overrides,
            tied: categories().all(|category| category != Category::Output),
            n_values: categories().filter(|category| category.holds_values()).count() as u32,
            i_values: 0,
            i_down: 0,
            i_gate: 0,
            i_up: 0,
        }
    }

    /// Dtype of the next tensor that no option names, before its row length is checked.
    pub(super) fn choose(&mut self, tensor: &TensorFacts<'_>) -> Result<(DType, Reason), RecipeError> {
        use Category as C;
        let (category, recipe) = (Category::of(tensor.name), self.recipe);
        if self.model.quantization.eight_bits_at_least.iter().any(|part| tensor.name.contains(part)) {
            // The caller asks only for quantized defaults.
            return Ok((DType::Q8_0, Reason::Q8_0AtLeast));
        }
        let file_type = recipe.file_type;
        let low = rules::LOW.contains(&file_type);
        let n_layer = i64::from(self.model.n_layer);
        // If the embedding doubles as output matrix, there is no `output.weight`, and the embedding is
        // treated as one.
        let as_output = category == C::Output || (category == C::TokenEmbd && self.tied);
        // The option for the output matrix also decides for an embedding that doubles as one.
        if let (true, Some(dtype)) = (as_output, self.overrides.output_type) {
            return Ok((dtype, Reason::OutputOption));
        }
        let (list, place): (&'static [Rule], Place) = match category {
            _ if as_output => (rules::OUTPUT, (0, 0)),
            _ if file_type == FileType::MXFP4_MOE => (rules::MXFP4_MOE, (0, 0)),
            C::TokenEmbd => (rules::EMBEDDING, (0, 0)),
            C::AttnV | C::AttnQkv | C::AttnKvB => {
                let place = (next(&mut self.i_values), self.n_values.into());
                (if low { rules::LOW_VALUES } else { rules::VALUES }, place)
            }
            C::AttnK => (if low { rules::LOW_KEYS } else { rules::KEYS }, (0, 0)),
            C::AttnQ if !low => (rules::QUERIES, (0, 0)),
            C::AttnOutput => (if low { rules::LOW_ATTN_OUTPUT } else { rules::ATTN_OUTPUT }, (0, 0)),
            // Below three bits the reference counts tensors; above, it parses the layer from the name if
            // there are experts. Both agree for models whose tensors are in order.
            C::FfnDown if low => (rules::LOW_DOWN, (next(&mut self.i_down), n_layer)),
            C::FfnDown => (rules::DOWN, self.layer(tensor.name, |state| &mut state.i_down)?),
            C::FfnGate if !low => (rules::GATE_UP, self.layer(tensor.name, |state| &mut state.i_gate)?),
            C::FfnUp if !low => (rules::GATE_UP, self.layer(tensor.name, |state| &mut state.i_up)?),
            C::AttnQ | C::FfnGate | C::FfnUp | C::Output | C::Other => (&[], (0, 0)),
        };
        // The first matching rule; the reference has a chain of else-if.
        let found = list.iter().find(|rule| {
            (rule.of.is_empty() || rule.of.contains(&file_type))
                && rule.when.iter().all(|when| self.holds(*when, tensor, category, place))
        });
        let (mut dtype, mut reason) = match found {
            Some(rule) => (rule.then, Reason::Rule { category, tied: self.tied, when: rule.when }),
            None => (recipe.default, Reason::Default),
        };
        // Applied after the chain, to its result. A 70B model shares each value head among eight query heads,
        // so its values are few and more bits cost little; eight experts share one attention.
        if category.holds_values() && !low && file_type != FileType::MXFP4_MOE {
            let rule = |when| Reason::Rule { category, tied: false, when };
            if self.model.is_70b && matches!(dtype, DType::Q3_K | DType::Q4_K) {
                (dtype, reason) = (DType::Q5_K, rule(&[When::Model70b]));
            }
            if self.model.n_expert == 8 {
                (dtype, reason) = (DType::Q8_0, rule(&[When::EightExperts]));
            }
        }
        Ok((dtype, reason))
    }

    /// Layer of a feed-forward tensor: counted, or parsed from the name in models with experts, whose tensors
    /// may be in any order (`layer_info`).
    fn layer(&mut self, name: &str, counter: fn(&mut Self) -> &mut u32) -> Result<Place, RecipeError> {
        // Counts even if the name decides, like the reference; the counter is unused then.
        let counted = next(counter(self));
        let n_layer = self.model.n_layer;
        let layer = if self.model.n_expert > 1 {
            layer_of(name).ok_or_else(|| RecipeError::NoLayer { name: name.to_owned() })?
        } else {
            counted
        };
        if self.model.n_expert > 1 && !(0..i64::from(n_layer)).contains(&layer) {
            return Err(RecipeError::LayerOutOfRange { name: name.to_owned(), layer, n_layer });
        }
        Ok((layer, n_layer.into()))
    }

    fn holds(&self, when: When, tensor: &TensorFacts<'_>, category: Category, (i, n): Place) -> bool {
        let (model, own_rules) = (self.model, self.model.quantization.has_own_rules);
        // `use_more_bits`: the first and last eighth, and every third layer in between.
        let in_outer_eighths = i < n / 8 || i >= 7 * n / 8;
        match when {
            When::Grouped => model.n_gqa() >= 4,
            When::GroupedOrExperts => model.n_gqa() >= 4 || model.n_expert >= 4,
            When::EightExperts => model.n_expert == 8,
            When::NotEightExperts => model.n_expert != 8,
            When::FirstEighth => i < n / 8,
            When::FirstSixteenth => i < n / 16,
            When::Middle => !in_outer_eighths,
            When::MoreBits => in_outer_eighths || (i - n / 8) % 3 == 2,
            When::Before(count) => i < i64::from(count),
            When::Weighted => self.overrides.has_imatrix,
            When::Unweighted => !self.overrides.has_imatrix,
            When::OwnRules => own_rules,
            When::UsualRules => !own_rules,
            When::ExpertStack => {
                let feed_forward =
                    matches!(category, Category::FfnUp | Category::FfnGate | Category::FfnDown);
                tensor.shape.dim(2) > 1 && (!model.quantization.only_feed_forward_has_experts || feed_forward)
            }
            When::PartialBlock => !tensor.shape.row_elems().is_multiple_of(self.recipe.default.block_elems()),
            When::Model70b => model.is_70b,
        }
    }
}

fn next(counter: &mut u32) -> i64 {
    let value = *counter;
    *counter += 1;
    value.into()
}

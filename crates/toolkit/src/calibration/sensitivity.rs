//! Influence of matrices on the predictions of a decoder, by role and depth: for choices of types without running the model.
//!
//! A relative squared error r of the products of a matrix raises the KL divergence by about s * r, for small errors. The
//! sensitivities s were measured with Q4_K on two models (`docs/notes/quality.md`). All matrices of a role together
//! have about the same influence in both, whatever their number, so they share the sensitivity of the role.

use std::collections::{BTreeSet, HashMap};

use gguf_conversion::recipes::{Category, layer_of};

/// Sensitivity of token embeddings as input of the first layer, in nats.
const EMBEDDING: f64 = 0.75;
/// Sensitivity of the output matrix.
const OUTPUT: f64 = 8.9;
/// Shares of feed-forward matrices of the first and last layer, relative to those between.
const FIRST: f64 = 2.0;
const LAST: f64 = 4.0;

const TOKEN_EMBEDDING: &str = "token_embd.weight";
const OUTPUT_MATRIX: &str = "output.weight";

/// Nats per relative squared error of all matrices of a role.
const fn of_role(role: Category) -> f64 {
    match role {
        Category::TokenEmbd => EMBEDDING,
        Category::Output => OUTPUT,
        Category::FfnDown => 4.5,
        Category::FfnGate => 3.7,
        Category::FfnUp => 2.8,
        Category::AttnV => 1.3,
        Category::AttnOutput => 1.6,
        Category::AttnQ | Category::AttnK => 0.9,
        Category::AttnQkv => 3.1,
        Category::AttnKvB => 2.2,
        // Not measured: state-space layers, latents. Like the output of attention.
        _ => 1.6,
    }
}

/// Sensitivity of each of these matrices: nats per relative squared error of its products. `all` are the names of all tensors.
pub fn sensitivities<'a>(names: &[&str], all: impl Iterator<Item = &'a str>) -> Vec<f64> {
    let all: BTreeSet<&str> = all.collect();
    let is_tied = !all.contains(OUTPUT_MATRIX);
    let last_layer = all.iter().filter_map(|name| layer_of(name)).max();
    let share = |name: &str, role: Category| match (role, layer_of(name)) {
        (Category::FfnDown | Category::FfnUp | Category::FfnGate, layer @ Some(_)) if layer == last_layer => {
            LAST
        }
        (Category::FfnDown | Category::FfnUp | Category::FfnGate, Some(0)) => FIRST,
        _ => 1.0,
    };
    // The shares of all matrices of a role.
    let mut shares = HashMap::<Category, f64>::new();
    for name in names {
        let role = Category::of(name);
        *shares.entry(role).or_default() += share(name, role);
    }
    let of = |name: &&str| match Category::of(name) {
        // The embeddings of each layer have the same role, and are not the output.
        Category::TokenEmbd if is_tied && *name == TOKEN_EMBEDDING => EMBEDDING + OUTPUT,
        role @ (Category::TokenEmbd | Category::Output) => of_role(role),
        role => of_role(role) * share(name, role) / shares[&role],
    };
    names.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str], others: &[&'static str]) -> Vec<f64> {
        sensitivities(names, names.iter().chain(others).copied())
    }

    #[test]
    fn matrices_of_role_share_its_sensitivity() {
        let names = [
            "blk.0.ffn_down.weight",
            "blk.1.ffn_down.weight",
            "blk.2.ffn_down.weight",
            "blk.1.attn_q.weight",
        ];
        let found = of(&names, &[]);
        let down = of_role(Category::FfnDown) / (FIRST + 1.0 + LAST);
        assert_eq!(found, [FIRST * down, down, LAST * down, of_role(Category::AttnQ)]);
    }

    #[test]
    fn tied_embeddings_are_also_the_output() {
        assert_eq!(of(&["token_embd.weight"], &[]), [EMBEDDING + OUTPUT]);
        assert_eq!(of(&["token_embd.weight"], &["output.weight"]), [EMBEDDING]);
        assert_eq!(of(&["output.weight", "per_layer_token_embd.weight"], &[]), [OUTPUT, EMBEDDING]);
    }

    #[test]
    fn output_weighs_more_than_any_layer_role() {
        let roles = [Category::FfnDown, Category::FfnUp, Category::AttnOutput, Category::AttnV];
        let sensitivities = roles.map(of_role);
        assert!(sensitivities.is_sorted_by(|a, b| a >= b) && sensitivities[0] < OUTPUT, "{sensitivities:?}");
    }
}

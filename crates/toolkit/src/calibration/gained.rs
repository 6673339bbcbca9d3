//! Gains of a calibrated file, as text and JSON.

use std::{collections::BTreeMap, path::Path, time::Duration};

use gguf_refinement::{Outcome, Unrounded};
use serde::Serialize;

use super::{trained::Training, types::ChosenTypes, verify::Gain};
use crate::{
    table::table,
    text::{human_duration, printable},
};

/// Outcome for a file.
#[derive(Debug, Clone, Serialize)]
pub struct Gained {
    path: String,
    /// Divergences, if there was a text to measure on.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Gain>,
    /// The chosen types, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    types: Option<ChosenTypes>,
    /// The training of scales, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    training: Option<Training>,
    roles: BTreeMap<String, Role>,
    left: Vec<LeftAlone>,
    seconds: Times,
}

/// Matrices of one role, over all layers.
#[derive(Debug, Clone, Default, Serialize)]
struct Role {
    matrices: usize,
    /// Number of matrices that are as the codec made them.
    left: usize,
    /// Number of matrices rounded with output gradients.
    both_sides: usize,
    /// The sums over matrices of the mean squares of the output's error on held-out tokens.
    held_out_stock: f64,
    held_out: f64,
}

/// A matrix that is as the codec made it.
#[derive(Debug, Clone, Serialize)]
struct LeftAlone {
    tensor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expert: Option<usize>,
    reason: &'static str,
}

/// Seconds that the steps took.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Times {
    /// The model over the text.
    pub gathering: f64,
    /// Probes of matrices and the choice of types, if types were chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<f64>,
    /// Time for choosing the method and factors of each matrix.
    pub choosing: f64,
    /// Rounding of rows.
    pub rounding: f64,
    /// Training of scales, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training: Option<f64>,
    /// The stock result, to compare with.
    pub stock: f64,
    /// Three models over the text to measure on.
    pub verifying: f64,
}

/// `ffn_down` of `blk.3.ffn_down.weight`.
fn role(tensor: &str) -> &str {
    let name = tensor.strip_suffix(".weight").unwrap_or(tensor);
    name.rsplit('.').next().unwrap_or(name)
}

impl Gained {
    /// Collects the outcomes of the matrices of a file and the comparison with the base.
    pub fn new(
        path: &Path,
        outcomes: &[Outcome],
        verified: Option<Gain>,
        types: Option<ChosenTypes>,
        training: Option<Training>,
        seconds: Times,
    ) -> Gained {
        let (mut roles, mut left) = (BTreeMap::<String, Role>::new(), Vec::new());
        for outcome in outcomes {
            let of_role = roles.entry(role(&outcome.tensor).to_owned()).or_default();
            of_role.matrices += 1;
            if let Some((stock, ours)) = outcome.held_out {
                of_role.held_out_stock += stock;
                of_role.held_out += ours;
            }
            of_role.both_sides += usize::from(outcome.both_sides);
            if let Err(reason) = outcome.result {
                of_role.left += 1;
                left.push(LeftAlone {
                    tensor: outcome.tensor.clone(),
                    expert: outcome.is_expert.then_some(outcome.expert),
                    reason: match reason {
                        Unrounded::NotReached => "it received no tokens",
                        Unrounded::NoBetter => "not better on held-out tokens",
                    },
                });
            }
        }
        Gained { path: path.display().to_string(), verified, types, training, roles, left, seconds }
    }

    /// A table of roles, the unchanged matrices, the times and the divergences.
    pub fn text(&self) -> String {
        let header = ["role", "matrices", "held-out error / default", "unchanged"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for (role, of) in &self.roles {
            let share = of.held_out / of.held_out_stock.max(f64::MIN_POSITIVE);
            rows.push(vec![
                printable(role),
                of.matrices.to_string(),
                format!("{share:.3}"),
                of.left.to_string(),
            ]);
        }
        let mut text = format!("{}\n{}", self.path, table(&rows, &[1, 2, 3]));
        let both_sides: usize = self.roles.values().map(|of| of.both_sides).sum();
        if both_sides > 0 {
            let all: usize = self.roles.values().map(|of| of.matrices).sum();
            let others = if both_sides == all {
                ""
            } else {
                "; the others with input statistics alone (experts, the output matrix, outputs much wider than \
                    inputs, matrices whose rounding needs more than 4 GiB or that output gradients make worse)"
            };
            text += &format!("with output gradients: {both_sides} of {all} matrices{others}\n");
        }
        for left in &self.left {
            let expert = left.expert.map_or_else(String::new, |expert| format!(", expert {expert}"));
            text += &format!("unchanged: {}{expert}: {}\n", printable(&left.tensor), left.reason);
        }
        if let Some(training) = &self.training {
            text += &format!("{}\n", training.line());
        }
        let Times { gathering, types, choosing, rounding, training, stock, verifying } = self.seconds;
        let time = |seconds: f64| human_duration(Duration::from_secs_f64(seconds));
        let types = types.map_or_else(String::new, |types| format!("types {}, ", time(types)));
        let training = training.map_or_else(String::new, |training| format!("training {}, ", time(training)));
        text += &format!(
            "time: statistics {}, {types}Hessians {}, rounding {}, {training}default file {}, comparison {}\n",
            time(gathering),
            time(choosing),
            time(rounding),
            time(stock),
            time(verifying),
        );
        if let Some(gain) = &self.verified {
            text += &format!("over {} chunks: {}\n", gain.chunks, gain.line());
        }
        text
    }
}

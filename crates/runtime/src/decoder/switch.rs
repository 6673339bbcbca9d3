//! Built-in adapters that are selected by tokens of the text (Granite Switch).
//!
//! ```text
//! s_t = round(sum over j <= t of w_j a_j / sum over j <= t of w_j)      a_j: the adapter that token j names, counted from 1,
//!                                                                      or 0; w_j = exp(gain) if it names one, else exp(-gain)
//! W x_t becomes W x_t + B_s A_s x_t                                    s = s_t; A_0 and B_0 are zeros
//! ```
//!
//! A token that names an adapter is replaced by another token in the embedding. With published gains, one such token outweighs all
//! tokens without an adapter, so its adapter stays active.
//!
//! Source: `llama_model_granite_switch` of llama.cpp (llama-cpp-python 0.3.36), which computes `s_t` with a head of attention.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Error,
    keys::Keys,
    ops::{Product, Rows},
    pass::Pass,
    session::StateKind,
    weights::{Weight, Weights},
};

/// Selection of adapters.
pub(super) struct Switch {
    /// For each token that names an adapter: the adapter, counted from 1, and the token whose embedding is used.
    named: BTreeMap<u32, (usize, u32)>,
    /// `exp(-2 gain)`.
    weight_of_others: f32,
    /// Index of its state, after those of all layers.
    slot: usize,
}

/// Matrices that may have adapters.
const PARTS: &[&str] = &["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];

/// Length of the state: the sum of `a_j`, the number of tokens that name an adapter, and the number of others.
const STATE: usize = 3;

impl Switch {
    /// Reads the switch of a file, if the file has adapters.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::TensorShape`].
    pub fn open(keys: &Keys<'_>, weights: &Weights<'_>, n_layer: usize) -> Result<Option<Switch>, Error> {
        let (activate, substitute) = ("adapters.token_ids_activate", "adapters.token_ids_substitute");
        let names = (0..n_layer).flat_map(|i| PARTS.iter().map(move |part| format!("blk.{i}.{part}.lora_a")));
        let stored: Vec<_> =
            names.filter_map(|name| weights.shape(&name).map(|shape| (name, shape))).collect();
        let ids = match keys.list(activate)? {
            Some(ids) => ids,
            None if stored.is_empty() => return Ok(None),
            None => return Err(keys.missing(activate)),
        };
        for (name, shape) in stored {
            if shape.dim(2) != ids.len() as u64 + 1 {
                let expected = format!("{} matrices", ids.len() + 1);
                return Err(Error::TensorShape { name, expected, found: shape });
            }
        }
        let substitutes = keys.list(substitute)?.ok_or_else(|| keys.missing(substitute))?;
        if ids.len() != substitutes.len() || keys.need_count("adapters.count")? != ids.len() {
            return Err(keys.wrong(substitute, "as many tokens as adapters"));
        }
        let is_id = |id: &usize| u32::try_from(*id).is_ok();
        if !ids.iter().chain(&substitutes).all(is_id) {
            return Err(keys.wrong(activate, "token ids of 32 bits"));
        }
        let gain = keys.float("adapters.router_gain")?.unwrap_or(15.0);
        let pairs = ids.iter().zip(substitutes).enumerate();
        let named = pairs.map(|(i, (id, substitute))| (*id as u32, (i + 1, substitute as u32)));
        Ok(Some(Switch {
            named: named.collect(),
            weight_of_others: libm::expf(-2.0 * gain),
            slot: 2 * n_layer,
        }))
    }

    /// Selects an adapter for each token of the pass, and returns the tokens whose embeddings are used.
    pub fn choose(&self, pass: &mut Pass<'_, '_>) -> Vec<u32> {
        let mut states = pass.take_states(self.slot, StateKind::Tokens, STATE);
        let mut chosen = vec![0; pass.tokens.len()];
        for (rows, state) in pass.sequences().into_iter().zip(&mut states) {
            for row in rows {
                match self.named.get(&pass.tokens[row]) {
                    Some((adapter, _)) => {
                        state[0] += *adapter as f32;
                        state[1] += 1.0;
                    }
                    None => state[2] += 1.0,
                }
                // In single precision, tokens without an adapter do not lower a mean of 1.5.
                let mean = state[0] / (state[1] + state[2] * self.weight_of_others);
                chosen[row] = (mean.round() as usize).min(self.named.len());
            }
        }
        pass.put_states(self.slot, StateKind::Tokens, states);
        pass.adapter_of_row = Some(Arc::new(chosen));
        pass.tokens.iter().map(|id| self.named.get(id).map_or(*id, |(_, substitute)| *substitute)).collect()
    }
}

/// Adapters of a matrix: `B_s A_s x` is added to some of its outputs.
pub(super) struct Switched {
    /// A: (n_adapter + 1, rank, n_in).
    a: Weight,
    /// B: (n_adapter + 1, n_part, rank).
    b: Weight,
    /// Index of the first output that is changed.
    at: usize,
}

impl Switched {
    /// Reads `NAME.lora_a` and `NAME.lora_b` for `n_out` outputs from index `at`, if the file has them and `NAME` is a matrix
    /// that [`Switch::open`] looks at. Adapters of other matrices stay unknown tensors, which are reported.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(
        weights: &mut Weights<'_>,
        name: &str,
        n_in: usize,
        n_out: usize,
        at: usize,
    ) -> Result<Option<Switched>, Error> {
        let part = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).map(|(_, part)| part);
        if !part.is_some_and(|part| PARTS.contains(&part)) {
            return Ok(None);
        }
        let Some(shape) = weights.shape(&format!("{name}.lora_a")) else { return Ok(None) };
        let (rank, n_stack) = (shape.dim(1) as usize, shape.dim(2) as usize);
        let missing = |end: &str| Error::MissingTensor { name: format!("{name}.{end}") };
        let a = weights.stack(&format!("{name}.lora_a"), n_in, rank, n_stack)?;
        let b = weights.stack(&format!("{name}.lora_b"), rank, n_out, n_stack)?;
        let (a, b) = (a.ok_or_else(|| missing("lora_a"))?, b.ok_or_else(|| missing("lora_b"))?);
        Ok(Some(Switched { a, b, at }))
    }

    /// Adds the outputs of the selected adapters for `x` (n, n_in) to `out` (n, n_out).
    pub fn add(&self, x: &Rows, out: &mut Rows, pass: &mut Pass<'_, '_>) {
        let Some(chosen) = pass.adapter_of_row.clone() else { return };
        for adapter in 0..self.a.n_stack {
            let rows: Vec<usize> = (0..chosen.len()).filter(|row| chosen[*row] == adapter).collect();
            if rows.is_empty() {
                continue;
            }
            let x = pass.select_rows(x, &rows);
            pass.routed = Some(rows.clone());
            let mut narrow = pass.scratch(rows.len(), self.a.n_out);
            let product = Product { weight: &self.a, index: adapter, out: narrow.view_mut() };
            pass.mul_mat(x.view(), vec![product]);
            let mut more = pass.scratch(rows.len(), self.b.n_out);
            let product = Product { weight: &self.b, index: adapter, out: more.view_mut() };
            pass.mul_mat(narrow.view(), vec![product]);
            pass.routed = None;
            for (row, more) in rows.iter().zip(more.rows()) {
                let mut to = out.slice_mut(ndarray::s![*row, self.at..self.at + self.b.n_out]);
                to += &more;
            }
        }
    }
}

//! Memory of a file in llama.cpp: weights, KV cache, states, and the graph.
//!
//! Sizes of layers come from the graph itself ([`StateSize`]), so heads by layer, sliding windows, latent
//! attention and states are counted correctly. Cells are llama.cpp's:
//!
//! ```text
//! cells of a sequence         n = context, to the next multiple of 256
//! with a window w             min(n, w + batch), to the next multiple of 256
//! keys, values                parallel * cells * row_bytes(elements, kv_type), for each layer
//! states                      parallel * (rows + state) floats, for each layer
//! graph                       batch * (its widest point) floats, and masks of batch * cells f16
//! scores without fusion       batch * cells floats, for each head
//! ```
//!
//! KV cache and states are exact. The widest point of a graph is an estimate: [`StateSize::graph_floats`] plus the
//! residual stream and its norm, or the logits. For headers of 13 architectures it is at most 10 % off, with
//! several sequences 16 %, because some graphs copy their states; the total is at most 1 % off. Flash
//! attention is on, like llama.cpp by default, except in graphs that cannot use it; sequences have their own cells (`--parallel N`), and
//! everything is on one device.
//!
//! Source: `llama_model::create_memory`, `llama_kv_cache`, `llama_kv_cache_iswa`, `llama_memory_recurrent`
//! and `llama_context::sched_reserve` of llama.cpp (llama-cpp-python 0.3.36).

use std::collections::BTreeMap;

use gguf_types::{DType, Shape};

use crate::{Error, architecture::Graphs, keys::Keys, model::Parts, state_size::StateSize};

/// Layers that are counted without a graph; llama.cpp supports 512.
const MAX_LAYERS: usize = 1024;

/// Cells of a cache come in groups of this many.
const CELLS: u64 = 256;

/// Use of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Tokens of each sequence.
    pub context: u64,
    /// Sequences at a time.
    pub parallel: u64,
    /// Tokens that go through the graph together.
    pub batch: u64,
    /// The type of keys and values.
    pub kv_type: DType,
    /// True if predictions of every token are needed, like in a measurement; otherwise those of the last token
    /// of each sequence.
    pub all_logits: bool,
}

impl Default for Use {
    /// One sequence of 4096 tokens, as llama.cpp runs it by default.
    fn default() -> Self {
        Use { context: 4096, parallel: 1, batch: 512, kv_type: DType::F16, all_logits: false }
    }
}

/// Bytes that a use takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Bytes {
    /// Weights of all tensors.
    pub weights: u64,
    /// Keys and values.
    pub kv: u64,
    /// States that do not grow with the sequence.
    pub states: u64,
    /// Approximate memory of the graph.
    pub compute: u64,
}

impl Bytes {
    /// All together.
    pub fn total(&self) -> u64 {
        [self.weights, self.kv, self.states, self.compute].into_iter().fold(0, u64::saturating_add)
    }
}

/// Properties of a file that determine its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Bytes of all tensors.
    pub weights: u64,
    /// State of the parts of each layer.
    pub layers: Vec<Vec<StateSize>>,
    /// Elements of a row between layers.
    pub n_embd: usize,
    /// Number of tokens that a prediction is over; 0 without a head.
    pub n_vocab: usize,
    /// Training context length in tokens; 0 if no key states it.
    pub context_length: usize,
}

impl Demand {
    /// Reads only keys and shapes of a file.
    pub fn of(graphs: &Graphs, file: &gguf_container::Model) -> Result<Demand, Error> {
        let Parts { keys, prepared, .. } = Parts::of(graphs, file, &[])?;
        let weights = file.tensor_bytes();
        let n_vocab = if prepared.head.is_some() { prepared.n_vocab } else { 0 };
        let context_length = keys.count("context_length")?.unwrap_or(0);
        Ok(Demand {
            weights,
            layers: prepared.graph.state_sizes(),
            n_embd: prepared.n_embd,
            n_vocab,
            context_length,
        })
    }

    /// Estimates a file of an architecture without a graph by its keys: attention in every layer, and all products of the widest
    /// layer at once. Only weights are counted if the keys of attention are missing.
    ///
    /// # Errors
    /// A file without `general.architecture`, or a count that is not one.
    pub fn by_keys(file: &gguf_container::Model) -> Result<Demand, Error> {
        let keys = Keys::new(file.metadata())?;
        let count = |key: &str| Ok::<_, Error>(keys.count(key)?.unwrap_or(0));
        let (n_embd, n_layer) = (count("embedding_length")?, count("block_count")?.min(MAX_LAYERS));
        let n_head = keys.counts("attention.head_count", n_layer).ok().flatten().unwrap_or_default();
        let n_head_kv = keys.counts("attention.head_count_kv", n_layer).ok().flatten();
        let n_head_kv = n_head_kv.unwrap_or_else(|| n_head.clone());
        let width =
            |key: &str, n_head: usize| Ok::<_, Error>(keys.count(key)?.unwrap_or(n_embd / n_head.max(1)));
        let n_used = count("expert_used_count").unwrap_or(1).max(1) as u64;
        let mut floats: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, info) in file.tensors() {
            let Some((layer, _)) = gguf_types::layer_and_part(&info.name) else { continue };
            let is_matrix = info.shape.n_dims_effective() > 1;
            let n_out =
                if is_matrix { info.shape.dim(1).saturating_mul(info.shape.dim(2).min(n_used)) } else { 0 };
            let sum = floats.entry(layer.into()).or_default();
            *sum = sum.saturating_add(n_out);
        }
        let graph_floats = floats.into_values().max().unwrap_or(0) as usize;
        let mut layers = Vec::new();
        for (n_head, n_head_kv) in n_head.iter().zip(&n_head_kv) {
            let keys = n_head_kv.saturating_mul(width("attention.key_length", *n_head)?);
            let values = n_head_kv.saturating_mul(width("attention.value_length", *n_head)?);
            layers.push(vec![StateSize { keys, values, graph_floats, ..StateSize::default() }]);
        }
        let n_vocab = file.tensor("token_embd.weight").map_or(0, |(_, info)| info.shape.dim(1) as usize);
        let weights = file.tensor_bytes();
        Ok(Demand { weights, layers, n_embd, n_vocab, context_length: count("context_length")? })
    }

    /// True if anything grows with the context: false for state-space models, and for encoders, which see a
    /// text at once.
    pub fn grows(&self) -> bool {
        self.parts().any(|part| part.keys > 0 && part.window.is_none())
    }

    /// The bytes of a use.
    ///
    /// # Errors
    /// [`Error::KeyValues`] where rows of keys or values are no complete blocks of the type.
    pub fn bytes(&self, used: &Use) -> Result<Bytes, Error> {
        let mut kv = 0u64;
        for part in self.parts() {
            // The row length first, like in a tensor: cells are rows of the cache.
            let rows = cells(used, part.window).saturating_mul(used.parallel);
            for elems in [part.keys, part.values].into_iter().filter(|elems| *elems > 0) {
                let shape = Shape::new(&[elems as u64, rows]).map_err(Error::KeyValues)?;
                kv = kv.saturating_add(shape.n_bytes(used.kv_type).map_err(Error::KeyValues)?);
            }
        }
        let state_elems =
            self.parts().map(|part| (part.rows + part.state) as u64).fold(0, u64::saturating_add);
        let states = state_elems.saturating_mul(used.parallel).saturating_mul(size_of::<f32>() as u64);
        Ok(Bytes { weights: self.weights, kv, states, compute: self.compute_bytes(used) })
    }

    /// The bytes of a use together with those of models that are loaded next to this one.
    pub fn bytes_with(&self, others: &[Demand], used: &Use) -> Result<Bytes, Error> {
        others.iter().try_fold(self.bytes(used)?, |sum, other| {
            let Bytes { weights, kv, states, compute } = other.bytes(used)?;
            Ok(Bytes {
                weights: sum.weights.saturating_add(weights),
                kv: sum.kv.saturating_add(kv),
                states: sum.states.saturating_add(states),
                compute: sum.compute.saturating_add(compute),
            })
        })
    }

    /// The longest context, a multiple of 256 tokens and at most what the model was trained for, that fits into this many
    /// bytes; `None` if not even the shortest does. The context of `used` does not matter.
    pub fn longest_context(&self, used: &Use, memory: u64) -> Result<Option<u64>, Error> {
        self.longest_context_with(&[], used, memory)
    }

    /// As [`Demand::longest_context`], with models that are loaded next to this one and have the same context.
    pub fn longest_context_with(
        &self,
        others: &[Demand],
        used: &Use,
        memory: u64,
    ) -> Result<Option<u64>, Error> {
        /// Limit if no key states the training context.
        const MOST: u64 = 1 << 20;
        let fits = |context: u64| {
            Ok::<_, Error>(self.bytes_with(others, &Use { context, ..*used })?.total() <= memory)
        };
        let trained = if self.context_length > 0 { self.context_length as u64 } else { MOST };
        // A context longer than in training is not useful, even if it fits.
        if fits(trained)? {
            return Ok(Some(trained));
        }
        // In multiples of 256: either the shortest fits, or none; the one after the longest does not.
        // Bisection works because bytes never fall as the context grows.
        let (mut fitting, mut not) = (1, trained.div_ceil(CELLS));
        if not <= 1 || !fits(CELLS)? {
            return Ok(None);
        }
        while not - fitting > 1 {
            let middle = fitting + (not - fitting) / 2;
            if fits(middle * CELLS)? { fitting = middle } else { not = middle }
        }
        Ok(Some(fitting * CELLS))
    }

    fn parts(&self) -> impl Iterator<Item = &StateSize> {
        self.layers.iter().flatten()
    }

    /// Memory of the graph of one batch at its widest point, and of its masks.
    fn compute_bytes(&self, used: &Use) -> u64 {
        let n_tokens = batch(used);
        // Around every part are the residual stream, the same normalized, and holes that the allocator leaves: about four rows.
        let (n_embd, n_vocab) = (self.n_embd as u64, self.n_vocab as u64);
        let floats_of = |part: &StateSize| {
            let of_pairs = seen(used, part).saturating_mul(part.pair_floats as u64);
            let of_tokens = n_tokens.saturating_mul((part.graph_floats as u64).saturating_add(of_pairs));
            of_tokens.saturating_add(part.fixed_floats as u64)
        };
        let widest = self.parts().map(floats_of).max().unwrap_or(0);
        let layer = widest.saturating_add(n_tokens.saturating_mul(4 * n_embd));
        // After the last layer: about two and a half rows per token, and the requested logits. A batch cannot
        // contain the last tokens of more sequences than it has tokens.
        let n_last = used.parallel.min(n_tokens);
        let n_wanted = if used.all_logits { n_tokens } else { n_last };
        let head = n_wanted.saturating_mul(n_vocab).saturating_add(n_tokens.saturating_mul(5 * n_embd / 2));
        // The output buffer has room for the predictions of one token of each sequence.
        let floats = layer.max(head).saturating_add(n_last.saturating_mul(n_vocab));
        let floats = floats.saturating_mul(size_of::<f32>() as u64);
        // Each kind of layer has a mask in f16: of each token, which cells it sees.
        let mut kinds: Vec<u64> = Vec::new();
        for part in self.parts().filter(|part| part.keys > 0 || part.sees_batch) {
            let n = seen(used, part);
            // Layers with equally many cells share a mask.
            if !kinds.contains(&n) {
                kinds.push(n);
            }
        }
        let masks = kinds.iter().map(|cells| cells.saturating_mul(n_tokens).saturating_mul(2));
        masks.fold(floats, u64::saturating_add)
    }
}

/// Tokens of a batch: no more than there are.
fn batch(used: &Use) -> u64 {
    used.batch.min(used.context.saturating_mul(used.parallel)).max(1)
}

/// Cells that a token may see.
fn seen(used: &Use, part: &StateSize) -> u64 {
    if part.sees_batch { batch(used) } else { cells(used, part.window) }
}

/// Cells of one sequence in a layer.
fn cells(used: &Use, window: Option<usize>) -> u64 {
    let pad = |n: u64| n.div_ceil(CELLS).saturating_mul(CELLS);
    let all = pad(used.context.max(1));
    match window {
        None => all,
        Some(window) => pad(all.min((window as u64).saturating_add(batch(used)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(layers: Vec<Vec<StateSize>>) -> Demand {
        Demand { weights: 1000, layers, n_embd: 8, n_vocab: 32, context_length: 8192 }
    }

    #[test]
    fn longest_fitting_context_is_exact() {
        let full = StateSize { keys: 64, values: 64, graph_floats: 100, ..StateSize::default() };
        let demand = demand(vec![vec![full], vec![StateSize { window: Some(512), ..full }]]);
        for memory in [600_000, 1_000_000, 1_500_000, 2_000_000] {
            let total = |context| demand.bytes(&Use { context, ..Use::default() }).map(|bytes| bytes.total());
            match demand.longest_context(&Use::default(), memory).expect("f16 takes rows of any length") {
                None => assert!(total(256).is_ok_and(|total| total > memory), "{memory}"),
                Some(context) => {
                    assert!(total(context).is_ok_and(|total| total <= memory), "{memory}: {context}");
                    assert!(context == 8192 || total(context + 256).is_ok_and(|total| total > memory));
                }
            }
        }
        assert_eq!(demand.longest_context(&Use::default(), 999).ok().flatten(), None);
    }

    #[test]
    fn rows_of_partial_blocks_are_refused() {
        let demand = demand(vec![vec![StateSize { keys: 24, values: 24, ..StateSize::default() }]]);
        let used = Use { kv_type: DType::Q8_0, ..Use::default() };
        assert!(matches!(demand.bytes(&used), Err(Error::KeyValues(_))));
        assert!(demand.bytes(&Use::default()).is_ok());
    }

    #[test]
    fn hostile_sizes_do_not_overflow() {
        let huge = StateSize {
            keys: u32::MAX as usize,
            values: 1,
            rows: 1 << 40,
            state: 1 << 40,
            ..StateSize::default()
        };
        let demand = demand(vec![vec![huge]; 4]);
        let used = Use { context: u64::MAX / 2, parallel: u64::MAX / 2, ..Use::default() };
        assert!(matches!(demand.bytes(&used), Err(Error::KeyValues(_))));
    }
}

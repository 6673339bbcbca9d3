//! Embeddings of the last tokens together, which layers add to their streams (Qwen 4 Experimental).
//!
//! For the token t at a position, with G the longest n-gram:
//!
//! ```text
//! m_n = t_0 c_0 xor t_1 c_1 xor .. xor t_(n-1) c_(n-1)     t_s: the token s positions before; c: constants of 64 bits
//! e = [E[o_h + m_n mod v_h] for each n from 2 to G, for each head h of n]     E (n_rows, width)
//! a = norm(W_k e), q = norm(x)                  (N, n_embd) each: x are the N residual streams
//! s_i = a_i . q_i / sqrt(n_embd)
//! g_i = sigmoid(sign(s_i) sqrt(max(|s_i|, 1e-6))) W_v e
//! x_i <- x_i + g_i + silu(conv(norm(g)))_i      a causal convolution with G positions between its rows
//! ```
//!
//! A text is preceded by tokens that end a text, and what is before such a token does not count.
//!
//! Sources: `llm_graph_input_qwen4exp_ple` and `build_ple` in `src/models/qwen4exp.cpp` of llama.cpp
//! (llama-cpp-python 0.3.36); `Qwen4ExpTextPLELayer` of transformers 5.24.

use ndarray::s;
use rayon::prelude::*;

use super::{
    linear::Linear,
    mixer::{CausalConv, Kept},
    params::DecoderParams,
};
use crate::{
    Error,
    keys::Keys,
    ops::{Activation, Norm, NormKind, Rows, dot, sigmoid},
    pass::Pass,
    session::StateKind,
    state_size::StateSize,
    weights::{Weight, Weights},
};

pub(super) struct NGrams {
    table: Weight,
    /// `G`.
    longest: usize,
    /// `c`.
    multipliers: Vec<u64>,
    heads: Vec<Head>,
    /// The token that ends a text.
    end: u32,
    /// The token that stands for a picture.
    picture: u32,
    w_key: Linear,
    w_value: Linear,
    key_norm: Norm,
    query_norm: Norm,
    conv_norm: Norm,
    conv: CausalConv,
}

/// Rows of the table for a head.
struct Head {
    /// Tokens that are hashed together.
    n: usize,
    offset: u64,
    n_rows: u64,
}

impl NGrams {
    /// The embeddings that layer `i` adds to `n_streams` streams, if it does.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        n_streams: usize,
    ) -> Result<Option<NGrams>, Error> {
        let blk = |name: &str| format!("blk.{i}.ple_{name}");
        if weights.shape(&blk("key.weight")).is_none() {
            return Ok(None);
        }
        let n_embd = params.n_embd;
        let (longest, per_length) =
            (keys.need_count("ple.ngram_size")?, keys.need_count("ple.heads_per_ngram")?);
        let n_heads = longest.saturating_sub(1).saturating_mul(per_length);
        if n_heads == 0 || longest > 64 || per_length > 64 {
            return Err(keys.wrong("ple.ngram_size", "2 to 64 tokens, with 1 to 64 heads for each length"));
        }
        let list = |key: &str, n: usize| {
            let list = keys.counts(key, n)?.ok_or_else(|| keys.missing(key))?;
            Ok::<_, Error>(list.into_iter().map(|n| n as u64).collect::<Vec<_>>())
        };
        let (offsets, sizes) = (list("ple.head_offsets", n_heads)?, list("ple.head_vocab_sizes", n_heads)?);
        let name = "per_layer_token_embd.weight";
        let width = keys.need_count("embedding_length_per_layer_input")?;
        let n_rows = weights.shape(name).map_or(0, |shape| shape.dim(1));
        let fits = offsets.iter().zip(&sizes).all(|(offset, size)| {
            *size > 0 && offset.checked_add(*size).is_some_and(|end| end <= n_rows.min(u32::MAX.into()))
        });
        if !fits {
            return Err(keys.wrong("ple.head_vocab_sizes", "rows of `per_layer_token_embd`"));
        }
        let heads = offsets.into_iter().zip(sizes).enumerate();
        let heads = heads.map(|(h, (offset, n_rows))| Head { n: h / per_length + 2, offset, n_rows });
        let wide = n_streams.saturating_mul(n_embd);
        let mut norm = |name: &str| {
            let weight = Some(weights.need_vector(&blk(&format!("norm_{name}.weight")), wide)?);
            Ok::<_, Error>(Norm { kind: NormKind::Rms, epsilon: params.epsilon, weight, bias: None })
        };
        let (key_norm, query_norm, conv_norm) = (norm("key")?, norm("query")?, norm("conv")?);
        let conv = CausalConv::open(keys, "ple.conv_kernel", weights, &blk("conv1d"), wide)?;
        let end = keys.need_count("ple.eos_token_id")? as u32;
        Ok(Some(NGrams {
            table: weights.need_matrix(name, width, n_rows as usize)?,
            longest,
            multipliers: list("ple.layer_multipliers", longest)?,
            heads: heads.collect(),
            end,
            picture: keys.count("ple.image_token_id")?.map_or(end, |id| id as u32),
            w_key: Linear::need(weights, &blk("key"), n_heads * width, wide)?,
            w_value: Linear::need(weights, &blk("value"), n_heads * width, n_embd)?,
            key_norm,
            query_norm,
            conv_norm,
            conv: conv.dilated(longest, Kept::OfNGrams),
        }))
    }

    /// The state of a sequence.
    pub fn state_size(&self) -> StateSize {
        StateSize { rows: self.conv.kept_elems(self.w_key.weight.n_out), ..StateSize::default() }
    }

    /// Adds the embeddings to the streams, in layer `index`.
    pub fn add(&self, index: usize, streams: &mut [Rows], pass: &mut Pass<'_, '_>) {
        let (n_rows, n_embd) = (streams[0].nrows(), streams[0].ncols());
        let e = self.look_up(index, pass);
        let [mut key, value] = Linear::run_all([&self.w_key, &self.w_value], &e, pass);
        drop(e);
        self.key_norm.apply_groups(&mut key, n_embd);
        let mut query = pass.scratch(n_rows, streams.len() * n_embd);
        for (i, stream) in streams.iter().enumerate() {
            query.slice_mut(s![.., i * n_embd..(i + 1) * n_embd]).assign(&**stream);
        }
        self.query_norm.apply_groups(&mut query, n_embd);
        // The query becomes g.
        let (width, scale) = (query.ncols(), 1.0 / (n_embd as f32).sqrt());
        let rows = query.as_mut_slice().par_chunks_mut(width);
        let rows = rows.zip(key.as_slice().par_chunks(width)).zip(value.as_slice().par_chunks(n_embd));
        rows.for_each(|((query, key), value)| {
            for (query, key) in query.chunks_exact_mut(n_embd).zip(key.chunks_exact(n_embd)) {
                let score = dot(query, key) * scale;
                let sign = if score == 0.0 { 0.0 } else { score.signum() };
                let gate = sigmoid(sign * score.abs().max(1e-6).sqrt());
                query.iter_mut().zip(value).for_each(|(to, value)| *to = gate * value);
            }
        });
        drop((key, value));
        let mut normalized = query.clone();
        self.conv_norm.apply_groups(&mut normalized, n_embd);
        let mut convolved = self.conv.run(index, &normalized, pass);
        Activation::Silu.apply(&mut convolved);
        convolved += &query;
        for (i, stream) in streams.iter_mut().enumerate() {
            let added = convolved.slice(s![.., i * n_embd..(i + 1) * n_embd]);
            **stream += &added;
        }
    }

    /// `e`: (n, n_heads * width).
    fn look_up(&self, index: usize, pass: &mut Pass<'_, '_>) -> Rows {
        let n_before = self.longest - 1;
        let mut tokens = pass.tokens.clone();
        for placed in &pass.pictures {
            tokens[placed.rows.clone()].fill(self.picture);
        }
        // States contain tokens plus one, the newest last; 0 is before the text. They are exact up to 2^24.
        let mut states = pass.take_states(index, StateKind::Tokens, n_before);
        let mut rows = Vec::with_capacity(tokens.len() * self.heads.len());
        for (span, state) in pass.sequences().into_iter().zip(&mut states) {
            let before = state.iter().map(|token| (*token as u32).checked_sub(1));
            let all: Vec<Option<u32>> = before.chain(tokens[span].iter().copied().map(Some)).collect();
            for at in n_before..all.len() {
                self.rows_of(&all[at - n_before..=at], &mut rows);
            }
            let kept = &all[all.len() - n_before..];
            state.iter_mut().zip(kept).for_each(|(to, token)| *to = token.map_or(0.0, |id| (id + 1) as f32));
        }
        pass.put_states(index, StateKind::Tokens, states);
        let found = pass.rows_of(&self.table, &rows);
        let mut e = pass.scratch(tokens.len(), self.heads.len() * self.table.n_in);
        e.as_mut_slice().copy_from_slice(found.as_slice());
        e
    }

    /// Rows of the table for the last of some tokens.
    fn rows_of(&self, tokens: &[Option<u32>], rows: &mut Vec<u32>) {
        let last = tokens.len() - 1;
        let mut is_cut = false;
        let mixed: Vec<u64> = (0..self.longest)
            .scan(0u64, |mixed, back| {
                let token = tokens[last - back];
                // The last token itself may end a text.
                is_cut = is_cut || token.is_none() || (back > 0 && token == Some(self.end));
                let id = token.filter(|_| !is_cut).unwrap_or(self.end);
                *mixed ^= u64::from(id).wrapping_mul(self.multipliers[back]);
                Some(*mixed)
            })
            .collect();
        rows.extend(self.heads.iter().map(|head| (head.offset + mixed[head.n - 1] % head.n_rows) as u32));
    }
}

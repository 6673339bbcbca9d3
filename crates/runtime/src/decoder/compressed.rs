//! Attention to the nearest keys and to compressed ones of the entire text (DeepSeek 4).
//!
//! ```text
//! c = norm(W_dq h)        q = rope(rms(W_uq c))  (n_head, width)       k = rope(norm(W_kv h))  (width), key and value
//! K_w = rope(norm(sum over slots of softmax(g + a) * u))               one for each window of `ratio` positions
//! o = sum over k in the window and chosen K_w of p k                   p: softmax with a sink for each head
//! y = W_b [W_a,g rope^-1(o)_g for each group g of heads]
//! ```
//!
//! `[u, g] = [W_u h, W_g h]` of a position has one row (width), a slot in its own window; or two, of which the first is a
//! slot in the next window and the second in its own. `a` depends only on the place of the slot. `K_w` is rotated as
//! the first position of its window, and seen from the last one on. With an indexer (`indexer.rs`), whose keys are made
//! in the same way, a query sees the `top_k` windows with the largest scores, else all.
//!
//! The last elements of a head are rotated. Values are rotated keys, so outputs are rotated back.
//!
//! Sources: `DeepseekV4Attention` of transformers 5.24; `llama_model_deepseek4::graph` of llama.cpp (llama-cpp-python
//! 0.3.36).

use ndarray::{ArrayView2, s};

use super::{heads::sliding_window, linear::Linear, mixer::Mixer, params::DecoderParams, ropes::Ropes};
use crate::{
    Error,
    keys::Keys,
    ops::{
        Attention, KeyChoice, KvView, Mask, Norm, NormKind, Pools, Product, Rope, RopeCache, Rows, Selection,
        softmax,
    },
    pass::Pass,
    state_size::StateSize,
    weights::{Weight, Weights},
};

pub(super) struct Compressed {
    w_dq: Linear,
    q_norm: Option<Norm>,
    w_uq: Linear,
    /// Weightless norm of each query.
    head_norm: Norm,
    w_kv: Linear,
    kv_norm: Option<Norm>,
    sinks: Option<Vec<f32>>,
    /// `W_a` of each group of heads.
    w_a: Weight,
    w_b: Linear,
    ropes: Ropes,
    n_head: usize,
    width: usize,
    /// First rotated element of a head.
    rope_at: usize,
    window: usize,
    long: Option<Box<Long>>,
}

/// Compressed keys, and their choice.
struct Long {
    compressor: Compressor,
    indexer: Option<Indexer>,
    /// The place in a session of what keys are made of: after the keys of all layers.
    slots: [usize; 2],
}

struct Indexer {
    compressor: Compressor,
    w_q: Linear,
    w_weights: Linear,
    n_head: usize,
    width: usize,
    top_k: usize,
}

struct Compressor {
    w_u: Linear,
    w_g: Linear,
    /// (ratio, rows of a position * width): `a`.
    bias: Vec<f32>,
    norm: Option<Norm>,
    /// Positions of a window.
    ratio: usize,
    width: usize,
    /// Elements of the rows of a position: `width`, or twice as many.
    n_row: usize,
}

impl Compressor {
    fn open(
        params: &DecoderParams,
        weights: &mut Weights<'_>,
        name: &str,
        ratio: usize,
        width: usize,
    ) -> Result<Compressor, Error> {
        let n_embd = params.n_embd;
        let stored = weights.shape(&format!("{name}_kv.weight")).map_or(0, |shape| shape.dim(1) as usize);
        let n_row = if stored == 2 * width { 2 * width } else { width };
        Ok(Compressor {
            w_u: Linear::need(weights, &format!("{name}_kv"), n_embd, n_row)?,
            w_g: Linear::need(weights, &format!("{name}_gate"), n_embd, n_row)?,
            bias: weights.need_vector(&format!("{name}_ape.weight"), ratio.saturating_mul(n_row))?,
            norm: params.optional_norm(weights, &format!("{name}_norm"), width)?,
            ratio,
            width,
            n_row,
        })
    }

    /// `[u, g]`: (n, 2 * n_row).
    fn rows(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let [u, g] = Linear::run_all([&self.w_u, &self.w_g], h, pass);
        let mut both = pass.scratch(h.nrows(), 2 * self.n_row);
        both.slice_mut(s![.., ..self.n_row]).assign(&*u);
        both.slice_mut(s![.., self.n_row..]).assign(&*g);
        both
    }

    /// `K_w` of all complete windows of `[u, g]` (n_keys, 2 * n_row): (n_keys / ratio, width).
    fn compress(&self, rows: ArrayView2<'_, f32>, rope: &Rope, n_rot: usize) -> Rows {
        let (ratio, width, n_row) = (self.ratio, self.width, self.n_row);
        let n = rows.nrows() / ratio;
        let mut keys = Rows::zeros(n, width);
        let (mut shares, mut values) = (Vec::new(), Vec::new());
        for (window, mut key) in keys.rows_mut().into_iter().enumerate() {
            for (at, key) in key.iter_mut().enumerate() {
                shares.clear();
                values.clear();
                let mut slot = |position: usize, place: usize, at: usize| {
                    values.push(rows[[position, at]]);
                    shares.push(rows[[position, n_row + at]] + self.bias[place * n_row + at]);
                };
                let first = window * ratio;
                for place in 0..ratio {
                    if n_row > width && window > 0 {
                        slot(first - ratio + place, place, at);
                    }
                }
                for place in 0..ratio {
                    slot(first + place, place, n_row - width + at);
                }
                softmax(&mut shares, None);
                *key = shares.iter().zip(&values).map(|(share, value)| share * value).sum();
            }
        }
        if let Some(norm) = &self.norm {
            norm.apply(&mut keys);
        }
        let positions: Vec<u32> = (0..n).map(|window| (window * ratio) as u32).collect();
        rope.apply(&mut [&mut keys], width, width - n_rot, &rope.cache(&positions, None));
        keys
    }
}

impl Compressed {
    /// The attention of layer `i`, if it is of this kind.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<Compressed>, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        if weights.shape(&blk("attn_output_a.weight")).is_none() {
            return Ok(None);
        }
        let n_embd = params.n_embd;
        let heads = "attention.head_count";
        let n_head = keys.counts(heads, params.n_layer)?.ok_or_else(|| keys.missing(heads))?[i];
        let width = keys.need_count("attention.key_length")?;
        let rank = keys.need_count("attention.q_lora_rank")?;
        let (groups, out_rank) = (
            keys.need_count("attention.output_group_count")?,
            keys.need_count("attention.output_lora_rank")?,
        );
        let n_query = n_head.saturating_mul(width);
        if n_query == 0 || groups == 0 || n_head % groups != 0 {
            return Err(keys.wrong("attention.output_group_count", "a divisor of the number of heads"));
        }
        let n_rot = keys.need_count("rope.dimension_count")?;
        if n_rot > width {
            return Err(keys.wrong("rope.dimension_count", "a part of a head"));
        }
        let window =
            sliding_window(params, keys, i)?.ok_or_else(|| keys.missing("attention.sliding_window"))?;
        let ratios = "attention.compress_ratios";
        let ratio = keys.counts(ratios, params.n_layer)?.map_or(0, |ratios| ratios[i]);
        let ropes = match ratio {
            // Only the nearest keys: as the model was trained at first.
            0 => Ropes::open_unscaled(params, keys, n_rot, "rope.freq_base")?,
            _ => Ropes::open_scaled(params, keys, n_rot, "attention.compress_rope_freq_base")?,
        };
        let long = match ratio {
            0 => None,
            ratio => Some(Box::new(Long::open(params, keys, weights, i, [ratio, width, rank])?)),
        };
        let weightless = Norm { kind: NormKind::Rms, epsilon: params.epsilon, weight: None, bias: None };
        let w_a = blk("attn_output_a.weight");
        Ok(Some(Compressed {
            w_dq: Linear::need(weights, &blk("attn_q_a"), n_embd, rank)?,
            q_norm: params.optional_norm(weights, &blk("attn_q_a_norm"), rank)?,
            w_uq: Linear::need(weights, &blk("attn_q_b"), rank, n_query)?,
            head_norm: weightless,
            w_kv: Linear::need(weights, &blk("attn_kv"), n_embd, width)?,
            kv_norm: params.optional_norm(weights, &blk("attn_kv_a_norm"), width)?,
            sinks: weights.vector(&blk("attn_sinks.weight"), n_head)?,
            w_a: weights
                .need_matrix(&w_a, n_query / groups, groups.saturating_mul(out_rank))?
                .divided(groups),
            w_b: Linear::need(weights, &blk("attn_output_b"), groups * out_rank, n_embd)?,
            ropes,
            n_head,
            width,
            rope_at: width - n_rot,
            window,
            long,
        }))
    }

    fn head_attention(&self, mask: Mask) -> Attention<'_> {
        Attention {
            n_head: self.n_head,
            n_head_kv: 1,
            key_width: self.width,
            value_width: self.width,
            scale: 1.0 / (self.width as f32).sqrt(),
            soft_cap: None,
            mask,
            slopes: None,
            sinks: self.sinks.as_deref(),
            bias: None,
            selected: None,
        }
    }

    /// Attention of every sequence to the keys of its window and to compressed ones.
    fn attend_long(
        &self,
        index: usize,
        long: &Long,
        [h, c, query]: [&Rows; 3],
        key: Rows,
        pass: &mut Pass<'_, '_>,
    ) -> Rows {
        let rope = self.ropes.choose(pass.end());
        let n_rot = self.width - self.rope_at;
        let chosen =
            long.indexer.as_ref().map(|indexer| indexer.choose(long.slots[1], [h, c], rope, n_rot, pass));
        let rows = long.compressor.rows(h, pass);
        let compressed: Vec<Rows> = pass.with_kept(long.slots[0], rows, |views| {
            views.iter().map(|view| long.compressor.compress(view.keys, rope, n_rot)).collect()
        });
        let out = pass.scratch(query.nrows(), query.ncols());
        let ratio = long.compressor.ratio;
        pass.with_kept(index, key, |views| {
            let (mut all, mut rows) = (Vec::new(), vec![None; query.nrows()]);
            for (view, compressed) in views.iter().zip(&compressed) {
                let queries = view.queries;
                // Keys from the first window on, then compressed ones.
                let first = (queries.position + 1).saturating_sub(self.window);
                let near = view.keys.slice(s![first.., ..]);
                let n_near = near.nrows();
                let mut keys = Rows::zeros(n_near + compressed.nrows(), self.width);
                keys.slice_mut(s![..n_near, ..]).assign(&near);
                keys.slice_mut(s![n_near.., ..]).assign(&**compressed);
                let own = rows.iter_mut().enumerate().take(queries.end).skip(queries.start);
                for (row, chosen_keys) in own {
                    let position = queries.position + row - queries.start;
                    let from = (position + 1).saturating_sub(self.window) - first;
                    let windows = (0..(position + 1) / ratio).filter(|window| {
                        chosen.as_ref().is_none_or(|chosen| chosen.sees(row, 0, 1, window * ratio))
                    });
                    let seen = (from..position + 1 - first).chain(windows.map(|window| n_near + window));
                    *chosen_keys = Some(Selection::bits(keys.nrows(), seen));
                }
                all.push(keys);
            }
            let selection = Selection::of_rows(rows);
            let attention = Attention { selected: Some(&selection), ..self.head_attention(Mask::All) };
            let views: Vec<KvView<'_>> = views
                .iter()
                .zip(&all)
                .map(|(view, keys)| KvView { keys: keys.view(), values: keys.view(), ..*view })
                .collect();
            attention.run(query, &views, out)
        })
    }
}

impl Long {
    fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        [ratio, width, rank]: [usize; 3],
    ) -> Result<Long, Error> {
        let indexer = match weights.shape(&format!("blk.{i}.indexer.attn_q_b.weight")) {
            None => None,
            Some(_) => {
                let key = |name: &str| keys.need_count(&format!("attention.indexer.{name}"));
                let (n_head, width, top_k) = (key("head_count")?, key("key_length")?, key("top_k")?);
                if n_head == 0 || width < keys.need_count("rope.dimension_count")? || top_k == 0 {
                    return Err(keys.wrong("attention.indexer.key_length", "at least the rotated elements"));
                }
                let n_query = n_head.saturating_mul(width);
                let name = format!("blk.{i}.indexer_compressor");
                Some(Indexer {
                    compressor: Compressor::open(params, weights, &name, ratio, width)?,
                    w_q: Linear::need(weights, &format!("blk.{i}.indexer.attn_q_b"), rank, n_query)?,
                    w_weights: Linear::need(
                        weights,
                        &format!("blk.{i}.indexer.proj"),
                        params.n_embd,
                        n_head,
                    )?,
                    n_head,
                    width,
                    top_k,
                })
            }
        };
        let compressor =
            Compressor::open(params, weights, &format!("blk.{i}.attn_compressor"), ratio, width)?;
        let slots = [1, 2].map(|n| n * params.n_layer + i);
        Ok(Long { compressor, indexer, slots })
    }
}

impl Indexer {
    /// Chooses windows, as keys of which each is in one: `h (n, n_embd)`, `c (n, rank)`.
    fn choose(
        &self,
        slot: usize,
        [h, c]: [&Rows; 2],
        rope: &Rope,
        n_rot: usize,
        pass: &mut Pass<'_, '_>,
    ) -> Selection {
        let mut query = self.w_q.run(c, pass);
        let cache = pass.rope_cache(rope);
        rope.apply(&mut [&mut query], self.width, self.width - n_rot, &cache);
        let weights = self.w_weights.run(h, pass);
        let rows = self.compressor.rows(h, pass);
        let pool = |rows: ArrayView2<'_, f32>| self.compressor.compress(rows, rope, n_rot);
        let ratio = self.compressor.ratio;
        let choice = KeyChoice {
            n_head: self.n_head,
            width: self.width,
            scale: 1.0 / ((self.n_head * self.width) as f32).sqrt(),
            top_k: self.top_k.saturating_mul(ratio),
            pools: Some(Pools { size: ratio, has_tail: false, pool: &pool }),
        };
        pass.with_kept(slot, rows, |views| choice.select(&query, &weights, views))
    }
}

impl Mixer for Compressed {
    fn row_floats(&self) -> usize {
        3 * self.n_head * self.width
    }

    fn state_size(&self) -> StateSize {
        StateSize {
            // The key is the value too.
            keys: self.width,
            window: Some(self.window),
            graph_floats: 3 * self.n_head * self.width,
            ..StateSize::default()
        }
    }

    fn more_state(&self) -> Option<StateSize> {
        let long = self.long.as_ref()?;
        let of_index = long.indexer.as_ref().map_or(0, |indexer| indexer.width);
        let keys = (self.width + of_index).div_ceil(long.compressor.ratio);
        Some(StateSize { keys, ..StateSize::default() })
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let [mut c, mut key] = Linear::run_all([&self.w_dq, &self.w_kv], h, pass);
        for (norm, rows) in [(&self.q_norm, &mut c), (&self.kv_norm, &mut key)] {
            if let Some(norm) = norm {
                norm.apply(rows);
            }
        }
        let mut query = self.w_uq.run(&c, pass);
        self.head_norm.apply_groups(&mut query, self.width);
        let rope = self.ropes.choose(pass.end());
        let cache = pass.rope_cache(rope);
        rope.apply(&mut [&mut query, &mut key], self.width, self.rope_at, &cache);
        let mut attended = match &self.long {
            None => {
                let value = key.clone();
                let attention = self.head_attention(Mask::SlidingWindow(self.window));
                pass.attend(index, &attention, &query, key, value)
            }
            Some(long) => self.attend_long(index, long, [h, &c, &query], key, pass),
        };
        drop((query, c));
        let back: RopeCache = cache.transposed();
        rope.apply(&mut [&mut attended], self.width, self.rope_at, &back);
        // Each group of heads by itself, then all together.
        let (n_in, n_out) = (self.w_a.n_in, self.w_a.n_out);
        let mut narrow = pass.scratch(h.nrows(), self.w_b.weight.n_in);
        for group in 0..self.w_a.n_stack {
            let rows = pass.columns(&attended, group * n_in..(group + 1) * n_in);
            let out = narrow.slice_mut(s![.., group * n_out..(group + 1) * n_out]);
            pass.mul_mat(rows.view(), vec![Product { weight: &self.w_a, index: group, out }]);
        }
        self.w_b.run(&narrow, pass)
    }
}

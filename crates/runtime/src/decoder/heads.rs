//! The heads of a layer: how many, how wide, how far they see, and whose keys and values.

use super::params::DecoderParams;
use crate::{Error, keys::Keys, weights::Weights};

/// Heads of a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub n_head: usize,
    pub n_head_kv: usize,
    /// Elements of a query and of a key.
    pub key_width: usize,
    pub value_width: usize,
    /// Positions in the sliding window, if there is one.
    pub window: Option<usize>,
    /// The layer whose keys and values they see: their own, or an earlier one.
    pub source: usize,
    /// True if later layers use this layer's keys and values.
    pub is_source: bool,
}

impl Heads {
    /// Elements of all queries, keys and values of a token.
    pub fn widths(&self) -> [usize; 3] {
        let Heads { n_head, n_head_kv, key_width, value_width, .. } = *self;
        [n_head * key_width, n_head_kv * key_width, n_head_kv * value_width]
    }

    /// Heads of layer `i`.
    pub fn read(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &Weights<'_>,
        i: usize,
    ) -> Result<Heads, Error> {
        let own = Self::of_layer(params, keys, weights, i)?;
        let (source, is_source) = source(params, keys, i)?;
        if source == i {
            return Ok(Heads { source, is_source, ..own });
        }
        // Keys and values are those of the source, so that it says how wide they are.
        let shared = Self::of_layer(params, keys, weights, source)?;
        if own.n_head % shared.n_head_kv != 0 {
            return Err(keys.wrong("attention.head_count_kv", "a divisor of the number of heads"));
        }
        Ok(Heads { n_head: own.n_head, source, is_source, ..shared })
    }

    /// Values of layer `i` from its own keys and tensors.
    fn of_layer(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &Weights<'_>,
        i: usize,
    ) -> Result<Heads, Error> {
        let per_layer = |key: &str| keys.counts(key, params.n_layer).map(|counts| counts.map(|c| c[i]));
        let n_head =
            per_layer("attention.head_count")?.ok_or_else(|| keys.missing("attention.head_count"))?;
        let n_head_kv = per_layer("attention.head_count_kv")?.unwrap_or(n_head);
        if n_head == 0 || n_head_kv == 0 || n_head % n_head_kv != 0 {
            return Err(keys.wrong("attention.head_count_kv", "a divisor of the number of heads"));
        }
        let window = sliding_window(params, keys, i)?;
        // Where no key says it, tensors do: heads may be wider than the embedding has room for (GLM).
        let width = |key: &str, tensor: &str, n: usize| -> Result<usize, Error> {
            let rows = weights.shape(&format!("blk.{i}.{tensor}.weight")).map(|shape| shape.dim(1) as usize);
            let stored = || rows.map_or(params.n_embd / n_head, |rows| rows / n);
            Ok(kind_count(keys, key, window)?.unwrap_or_else(stored))
        };
        let key_width = width("attention.key_length", "attn_q", n_head)?;
        let value_width = width("attention.value_length", "attn_v", n_head_kv)?;
        if key_width == 0 || value_width == 0 {
            return Err(keys.wrong("attention.head_count", "no more heads than elements"));
        }
        Ok(Heads { n_head, n_head_kv, key_width, value_width, window, source: i, is_source: false })
    }
}

/// A count that sliding layers have under a separate key, if the file states one.
pub(super) fn kind_count(keys: &Keys<'_>, key: &str, window: Option<usize>) -> Result<Option<usize>, Error> {
    let with_window = match window {
        Some(_) => keys.count(&format!("{key}_swa"))?,
        None => None,
    };
    Ok(with_window.or(keys.count(key)?))
}

/// Layer whose keys and values layer `i` uses, and whether later layers use those of layer `i`.
///
/// The last `attention.shared_kv_layers` layers have no KV cache: each uses that of the last layer before them with the same
/// kind of window (or none). The reference always uses the last two layers before them.
fn source(params: &DecoderParams, keys: &Keys<'_>, i: usize) -> Result<(usize, bool), Error> {
    let key = "attention.shared_kv_layers";
    let n_shared = keys.count(key)?.unwrap_or(0);
    let n_own =
        params.n_layer.checked_sub(n_shared).ok_or_else(|| keys.wrong(key, "a part of the layers"))?;
    if n_shared == 0 {
        return Ok((i, false));
    }
    let slides = sliding_window(params, keys, i)?.is_some();
    let mut last = None;
    for layer in (0..n_own).rev() {
        if sliding_window(params, keys, layer)?.is_some() == slides {
            last = Some(layer);
            break;
        }
    }
    let last = last.ok_or_else(|| keys.wrong(key, "layers with one of their kind before them"))?;
    Ok(if i < n_own { (i, i == last) } else { (last, false) })
}

/// The sliding window of a layer, if it has one.
pub(super) fn sliding_window(
    params: &DecoderParams,
    keys: &Keys<'_>,
    i: usize,
) -> Result<Option<usize>, Error> {
    let Some(sliding) = params.spec.sliding else { return Ok(None) };
    let key = "attention.sliding_window_pattern";
    let flags = keys.flags(key, params.n_layer)?;
    let window = keys.count("attention.sliding_window")?.or(sliding.window).filter(|window| *window > 0);
    let slides = match flags {
        Some(flags) => flags[i],
        None => {
            let period = keys.count(key)?.unwrap_or(sliding.period);
            period == 0
                || if sliding.full_first { !i.is_multiple_of(period) } else { i % period < period - 1 }
        }
    };
    Ok(window.filter(|_| slides))
}

//! The rotation of a layer's queries and keys, as the keys of a file state it.

use super::{
    heads::{kind_count, sliding_window},
    params::DecoderParams,
    rope_scaling,
    spec::{RopeLayers, SlidingBase},
};
use crate::{
    Error,
    keys::Keys,
    ops::{Rope, RopeKind, RopeScaling},
    weights::Weights,
};

/// RoPE of a layer. LongRoPE has other divisors for texts beyond the context that a model was first trained with.
pub(super) struct Ropes {
    short: Rope,
    /// Applies after this many positions.
    long: Option<(usize, Rope)>,
}

impl Ropes {
    /// The rotation of layer `i`, if it has one.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        key_width: usize,
        window: Option<usize>,
    ) -> Result<Option<Ropes>, Error> {
        let spec = &params.spec;
        // Only the first n_rot elements of a head rotate (0.25 in GPT-NeoX, half in ChatGLM).
        let stated = kind_count(keys, "rope.dimension_count", window)?;
        let n_rot = stated.filter(|n| *n > 0 || !spec.zero_rotates_all).unwrap_or(key_width);
        // Divisors may be there for a complete head although only a part rotates; its pairs have the first ones.
        let n_divisors = n_rot / 2;
        let n_rot = if window.is_none() { n_rot / spec.rope_part_of_full } else { n_rot };
        // Files of models without rotation may have the key, too.
        if spec.rope.is_some() && (n_rot > key_width || n_rot % 2 != 0) {
            return Err(keys.wrong("rope.dimension_count", "an even part of a head"));
        }
        // Divisors of the frequencies: Llama 3's, for any length, or LongRoPE's two sets.
        // Layers with a window may lack them.
        let is_divided = window.is_none() || spec.sliding.is_none_or(|sliding| sliding.same_scaling);
        let mut divisors = |name: &str| if is_divided { weights.vector(name, n_divisors) } else { Ok(None) };
        let all = divisors("rope_freqs.weight")?;
        let (long, short) = (divisors("rope_factors_long.weight")?, divisors("rope_factors_short.weight")?);
        let rotates = match spec.rope_layers {
            RopeLayers::All => true,
            RopeLayers::Sliding => {
                // One layer of a period uses full attention, without RoPE; in a model without windows all layers have it.
                let slides = (0..params.n_layer).map(|i| sliding_window(params, keys, i));
                let slides = slides.collect::<Result<Vec<_>, _>>()?;
                slides.iter().all(Option::is_none) || slides[i].is_some()
            }
            RopeLayers::Stated => match keys.flags("attention.rope_pattern", params.n_layer)? {
                Some(rotates) => rotates[i],
                None => keys.flag("rope.scaling.finetuned", true)?,
            },
            RopeLayers::SlidingOrDense => {
                window.is_some() || i < keys.count("leading_dense_block_count")?.unwrap_or(0)
            }
            RopeLayers::AllButEveryNth(n) => !(i + 1).is_multiple_of(n),
        };
        let Some(kind) = spec.rope.filter(|_| rotates) else { return Ok(None) };
        // M-RoPE gives each section of pairs its own position (time, height, width). In text all three are
        // equal, which leaves RoPE on halves, and the fourth is 0.
        let (kind, axes) = match keys.counts("rope.dimension_sections", 4) {
            Ok(Some(sections)) if sections.iter().any(|n| *n > 0) => {
                (RopeKind::Neox, axes(&sections, n_rot / 2, spec.interleaved_sections))
            }
            _ => (kind, Vec::new()),
        };
        let mut base = rope_scaling::base(keys, n_rot)?;
        let mut scaling = rope_scaling::read(spec, keys)?;
        if let (Some(_), Some(sliding)) = (window, spec.sliding) {
            // Layers with a window see near tokens only: they may keep the base of the first training.
            let stated = keys.float("rope.freq_base_swa")?;
            base = match sliding.base {
                SlidingBase::Shared => base,
                SlidingBase::StatedOrShared => stated.unwrap_or(base),
                SlidingBase::StatedOrUsual => stated.unwrap_or(10000.0),
            };
            if !sliding.same_scaling {
                scaling = scaling.unscaled();
            }
        }
        let rope = |divisors: Option<&[f32]>| {
            let mut rope = Rope::new(kind, n_rot, base, &scaling, divisors);
            let mut axes = axes.clone();
            let pairs = rope.frequencies.iter_mut().zip(&mut axes);
            for (frequency, axis) in pairs.filter(|(_, axis)| **axis == UNUSED) {
                (*frequency, *axis) = (0.0, 0);
            }
            Rope { axes, ..rope }
        };
        // Llama 3's divisors are for every length; of LongRoPE's the short ones are for the context of the first training.
        let first = all.as_deref().or(short.as_deref());
        Ok(Some(Ropes {
            short: rope(first),
            long: long.filter(|_| all.is_none()).map(|long| (scaling.original_context, rope(Some(&long)))),
        }))
    }

    /// The rotation of `n_rot` elements with the base of a key, scaled without a change of length.
    pub fn open_scaled(
        params: &DecoderParams,
        keys: &Keys<'_>,
        n_rot: usize,
        base: &str,
    ) -> Result<Ropes, Error> {
        let scaling = RopeScaling { magnitude: 1.0, ..rope_scaling::read(&params.spec, keys)? };
        Self::of_base(params, keys, n_rot, base, &scaling)
    }

    /// Like this, without scaling.
    pub fn open_unscaled(
        params: &DecoderParams,
        keys: &Keys<'_>,
        n_rot: usize,
        base: &str,
    ) -> Result<Ropes, Error> {
        Self::of_base(params, keys, n_rot, base, &rope_scaling::read(&params.spec, keys)?.unscaled())
    }

    fn of_base(
        params: &DecoderParams,
        keys: &Keys<'_>,
        n_rot: usize,
        base: &str,
        scaling: &RopeScaling,
    ) -> Result<Ropes, Error> {
        if n_rot == 0 || !n_rot.is_multiple_of(2) {
            return Err(keys.wrong("rope.dimension_count", "an even number above 0"));
        }
        let kind = params.spec.rope.unwrap_or(RopeKind::Normal);
        Ok(Ropes { short: Rope::new(kind, n_rot, keys.need_float(base)?, scaling, None), long: None })
    }

    /// Like this, with other pairs of elements, if a kind is given.
    pub fn of_kind(self, kind: Option<RopeKind>) -> Ropes {
        let change = |rope: Rope| Rope { kind: kind.unwrap_or(rope.kind), ..rope };
        Ropes { short: change(self.short), long: self.long.map(|(context, rope)| (context, change(rope))) }
    }

    /// The one for texts of `end` positions.
    pub fn choose(&self, end: usize) -> &Rope {
        match &self.long {
            Some((context, long)) if end > *context => long,
            _ => &self.short,
        }
    }
}

/// The fourth axis, along which every position is 0.
const UNUSED: usize = 3;

/// Axis of each of `n` pairs: 0 for time, 1 for height, 2 for width, 3 for pairs that do not rotate. `sections` are numbers
/// of pairs, one stretch after the other; or interleaved: every third pair from the second on rotates by height and from
/// the third on by width, as long as their sections last.
///
/// Source: `ggml_mrope_cache_init` of ggml, llama.cpp of llama-cpp-python 0.3.36, and
/// `recomposition_frequencies` in `modeling_qwen3_vl.py` of transformers 5.23.
fn axes(sections: &[usize], n: usize, is_interleaved: bool) -> Vec<usize> {
    let total = sections.iter().fold(0usize, |sum, n| sum.saturating_add(*n)).max(1);
    let axis = |pair: usize| {
        // More pairs than the sections have begin again.
        let at = pair % total;
        if is_interleaved {
            return if at < sections[at % 3].saturating_mul(3) { at % 3 } else { UNUSED };
        }
        let height = sections[0];
        let width = height.saturating_add(sections[1]);
        match at {
            _ if at < height => 0,
            _ if at < width => 1,
            _ if at < width.saturating_add(sections[2]) => 2,
            _ => UNUSED,
        }
    };
    (0..n).map(axis).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_contiguous_or_interleaved() {
        assert_eq!(axes(&[2, 1, 1, 0], 4, false), [0, 0, 1, 2]);
        assert_eq!(axes(&[2, 1, 1, 0], 4, true), [0, 1, 2, 0]);
        // More pairs than the sections have begin again.
        assert_eq!(axes(&[1, 1, 0, 0], 4, true), [0, 1, 0, 1]);
        // Pairs after the last of height and width do not rotate.
        let axes = axes(&[24, 20, 20, 0], 64, true);
        assert_eq!(
            [0, 1, 2, 3].map(|axis| axes.iter().filter(|found| **found == axis).count()),
            [22, 20, 20, 2]
        );
        assert_eq!(axes[57..], [0, 1, 2, 0, 3, 3, 0]);
    }
}

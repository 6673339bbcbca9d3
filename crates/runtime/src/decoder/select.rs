//! Chooses the mixers of a layer by its tensors.

use super::{
    attention::Attention,
    compressed::Compressed,
    latent::Latent,
    mixer::{
        DeltaNet, Kda, Mamba, Mamba2, MambaByHead, Matrix, Mixer, ShortConv, TimeMix4, TimeMix6, TimeMix7,
    },
    params::DecoderParams,
};
use crate::{Error, keys::Keys, weights::Weights};

/// The mixers of layer `i`; their outputs are summed.
pub(super) fn mixers(
    params: &DecoderParams,
    keys: &Keys<'_>,
    weights: &mut Weights<'_>,
    i: usize,
) -> Result<Vec<Box<dyn Mixer>>, Error> {
    let has = |weights: &Weights<'_>, name: &str| weights.shape(&format!("blk.{i}.{name}.weight")).is_some();
    let mut mixers: Vec<Box<dyn Mixer>> = Vec::new();
    // `ssm_a` is a vector with one decay per head, or a matrix with one per element of a state.
    let has_decay_by_head =
        weights.shape(&format!("blk.{i}.ssm_a")).is_some_and(|shape| shape.n_elems() == shape.dim(0));
    // The order matters: RWKV 7 has the `time_mix_w1` of RWKV 6 too, and Mamba the `ssm_in` of Mamba 2.
    if has(weights, "time_mix_w0") {
        mixers.push(Box::new(TimeMix7::open(params, keys, weights, i)?));
    } else if has(weights, "time_mix_w1") {
        mixers.push(Box::new(TimeMix6::open(params, keys, weights, i)?));
    } else if has(weights, "time_mix_key") {
        mixers.push(Box::new(TimeMix4::open(params, weights, i)?));
    } else if has(weights, "ssm_conv1d_q") {
        // Its output matrix has the name of attention's.
        return Ok(vec![Box::new(Kda::open(params, keys, weights, i)?)]);
    } else if has(weights, "ssm_ba") || has(weights, "ssm_beta") {
        mixers.push(Box::new(DeltaNet::open(params, keys, weights, i)?));
    } else if has(weights, "ssm_x") && has_decay_by_head {
        mixers.push(Box::new(MambaByHead::open(params, keys, weights, i)?));
    } else if has(weights, "ssm_x") {
        mixers.push(Box::new(Mamba::open(params, keys, weights, i)?));
    } else if has(weights, "ssm_in") {
        mixers.push(Box::new(Mamba2::open(params, keys, weights, i)?));
    } else if has(weights, "shortconv.conv") {
        mixers.push(Box::new(ShortConv::open(params, keys, weights, i)?));
    }
    if let Some(compressed) = Compressed::open(params, keys, weights, i)? {
        return Ok(vec![Box::new(compressed)]);
    }
    let heads = |key: &str| keys.counts(key, params.n_layer).map(|counts| counts.map(|counts| counts[i]));
    if mixers.is_empty() && !has(weights, "attn_q") && !has(weights, "attn_qkv") {
        if heads("attention.head_count")? == Some(0) {
            return Ok(mixers);
        }
        if heads("attention.head_count_kv")? == Some(0) && has(weights, "attn_output") {
            return Ok(vec![Box::new(Matrix::open(params, weights, i)?)]);
        }
    }
    // A layer without them has attention; Falcon-H1's have Mamba 2 and attention side by side.
    if mixers.is_empty() || has(weights, "attn_output") {
        mixers.push(match Latent::open(params, keys, weights, i)? {
            Some(latent) => Box::new(latent),
            None => Box::new(Attention::open(params, keys, weights, i)?),
        });
    }
    Ok(mixers)
}

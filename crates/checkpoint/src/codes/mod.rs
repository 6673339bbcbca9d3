//! Weights as codes of up to eight bits with scales and zeros: one core for all methods that store such.
//!
//! A method says where codes lie ([`Codes`]), where scales, zeros and offsets lie ([`Strided`], [`Zeros`]), which group a
//! column belongs to ([`Groups`]), and gets a [`CodedWeights`], which is a [`Stored`](crate::Stored) with
//!
//! ```text
//! w[n, c] = (q[n, c] - z[n, group(c)]) * s[n, group(c)]  [+ b[n, group(c)]]  [*, / fold[c]]     all in f32
//! ```
//!
//! `q - z` is exact, so that each further step is the one rounding that it shows.

mod check;
mod packing;
mod repack;
mod strided;
mod weights;

pub(crate) use self::{
    packing::{Axis, Codes, Fields, Packing},
    strided::{Change, Strided},
    weights::{CodedWeights, FLOATS, Fold, Groups, ZeroRule, Zeros},
};

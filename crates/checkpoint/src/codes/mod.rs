//! Weights as codes of up to eight bits with scales and zeros: the shared core of many methods.
//!
//! A method specifies the positions of codes ([`Codes`]) and of scales, zeros and offsets ([`Strided`],
//! [`Zeros`]), and the group of each column ([`Groups`]). The result is a [`CodedWeights`], which is a
//! [`Stored`](crate::Stored) with
//!
//! ```text
//! w[n, c] = (q[n, c] - z[n, group(c)]) * s[n, group(c)]  [+ b[n, group(c)]]  [*, / fold[c]]     all in f32
//! ```
//!
//! `q - z` is exact, so each further step is one rounding.

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

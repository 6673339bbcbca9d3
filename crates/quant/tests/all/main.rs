//! Codecs at every CPU level, compared with the reference and with scalar code.

mod codebook;
mod frozen;
mod golden;
mod interface;
mod levels;

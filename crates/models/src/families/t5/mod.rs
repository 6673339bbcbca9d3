//! T5, by Google, and other models with its classes.

pub mod convert;
pub mod form;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::T5, convert::T5_ENCODER],
    forms: &[form::FORM],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};

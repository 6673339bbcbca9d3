//! Youtu-VL, by Tencent: the vision projector. Its text part has a class of the deepseek family.

pub mod projector;

use crate::family::Family;

pub const FAMILY: Family = Family { projectors: &[projector::YOUTUVL], ..Family::EMPTY };

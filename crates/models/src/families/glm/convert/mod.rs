//! Conversion of the models of this family, one file for each.

pub mod chatglm;
pub mod glm4;
pub mod glm4_moe_lite;
pub mod glm4moe;
pub mod glm5_next;
pub mod glm_dsa;

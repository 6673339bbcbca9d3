//! Type numbers assigned by forks of llama.cpp, for error messages about files that cannot be read.
//!
//! Sources: `enum ggml_type` in `ggml/include/ggml.h` of ikawrakow/ik_llama.cpp (commit b50efcc9; 142, 143,
//! 152 to 158 and 352 are from other commits) and of microsoft/BitNet's llama.cpp.

/// A number that a fork uses for an additional type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForkType {
    /// The ggml type id in files of the fork.
    pub id: u32,
    /// Name of the type in the fork.
    pub name: &'static str,
    /// Name of the fork.
    pub fork: &'static str,
}

const fn ik(id: u32, name: &'static str) -> ForkType {
    ForkType { id, name, fork: "ik_llama.cpp" }
}

const fn bitnet(id: u32, name: &'static str) -> ForkType {
    ForkType { id, name, fork: "bitnet.cpp" }
}

/// Known numbers that the reference does not use, in id order; 36 to 38 are also among
/// [`REMOVED`](crate::REMOVED). (`bitnet.cpp` uses 39, MXFP4 of the reference, for a type TL2; only the
/// file's size distinguishes them.)
pub const FORK_TYPES: &[ForkType] = &[
    bitnet(36, "i2_s"),
    bitnet(37, "i8_s"),
    bitnet(38, "tl1"),
    ik(98, "q8_0_x4"),
    ik(99, "q8_1_x4"),
    ik(133, "q6_0"),
    ik(134, "iq1_bn"),
    ik(135, "iq2_bn"),
    ik(136, "q8_k64"),
    ik(137, "iq2_k"),
    ik(138, "iq3_k"),
    ik(139, "iq4_k"),
    ik(140, "iq5_k"),
    ik(141, "iq6_k"),
    ik(142, "iq2_tn"),
    ik(143, "iq1_tn"),
    ik(144, "iq4_ks"),
    ik(145, "iq2_ks"),
    ik(146, "iq4_kss"),
    ik(147, "q8_k16"),
    ik(148, "q8_k32"),
    ik(149, "q8_kr8"),
    ik(150, "q8_k128"),
    ik(151, "q8_kv"),
    ik(152, "iq5_ks"),
    ik(153, "iq2_kt"),
    ik(154, "iq3_kt"),
    ik(155, "iq4_kt"),
    ik(156, "iq3_ks"),
    ik(157, "iq2_kl"),
    ik(158, "iq1_kt"),
    ik(202, "q4_0_r8"),
    ik(206, "q5_0_r4"),
    ik(208, "q8_0_r8"),
    ik(210, "q2_k_r4"),
    ik(211, "q3_k_r4"),
    ik(212, "q4_k_r4"),
    ik(213, "q5_k_r4"),
    ik(214, "q6_k_r4"),
    ik(216, "iq2_xxs_r4"),
    ik(217, "iq2_xs_r4"),
    ik(218, "iq3_xxs_r4"),
    ik(219, "iq1_s_r4"),
    ik(220, "iq4_nl_r4"),
    ik(221, "iq3_s_r4"),
    ik(222, "iq2_s_r4"),
    ik(223, "iq4_xs_r8"),
    ik(229, "iq1_m_r4"),
    ik(230, "bf16_r16"),
    ik(233, "q6_0_r4"),
    ik(335, "iq2_bn_r4"),
    ik(337, "iq2_k_r4"),
    ik(338, "iq3_k_r4"),
    ik(339, "iq4_k_r4"),
    ik(340, "iq5_k_r4"),
    ik(344, "iq4_ks_r4"),
    ik(352, "iq5_ks_r4"),
    ik(398, "q8_kv_r8"),
    ik(399, "q8_k_r8"),
];

/// Fork type with this number.
pub fn fork_type(id: u32) -> Option<&'static ForkType> {
    FORK_TYPES.iter().find(|fork| fork.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn fork_ids_differ_from_reference_ids() {
        assert!(FORK_TYPES.is_sorted_by_key(|fork| fork.id));
        for fork in FORK_TYPES {
            assert!(DType::ALL.iter().all(|dtype| dtype.id() != fork.id), "{}", fork.name);
        }
        assert_eq!(fork_type(144).map(|fork| fork.name), Some("iq4_ks"));
    }
}

//! Hunyuan, by Tencent: text, and images in Hunyuan OCR and VL.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;
use gguf_layout::Quantization;

pub const FAMILY: Family = Family {
    arches: &[
        convert::hunyuan::HUNYUAN_DENSE,
        convert::hunyuan::HUNYUAN_MOE,
        convert::hunyuan::HUNYUAN_VL,
        convert::hy_v3::HY_V3,
        convert::hy_v4::HY_V4,
    ],
    projectors: &[projector::HUNYUANVL],
    quantization: &[
        // Configs of models without experts state one expert.
        Quantization { architecture: "hunyuan-dense", one_expert_is_none: true, ..Quantization::USUAL },
        Quantization { architecture: "hunyuan_vl", one_expert_is_none: true, ..Quantization::USUAL },
    ],
    graphs: graph::GRAPHS,
    forms: FORMS,
    departures: &[convert::hunyuan::BASE],
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] =
    &[FamilyForm::refused(&["hunyuan"], Some(".q_proj."), "its projections are split")];

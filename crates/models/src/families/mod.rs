//! Model families, one folder for each. `BLESS=1 cargo test --test all repository::families` writes this file.

pub mod afmoe;
pub mod apertus;
pub mod arcee;
pub mod arctic;
pub mod auraflow;
pub mod baichuan;
pub mod bailing;
pub mod bamba;
pub mod bert;
pub mod bitnet;
pub mod bloom;
pub mod chameleon;
pub mod codeshell;
pub mod cogvlm;
pub mod cohere;
pub mod cosmos;
pub mod dbrx;
pub mod deci;
pub mod deepseek;
pub mod dflash;
pub mod dots;
pub mod dream;
pub mod eagle3;
pub mod ernie;
pub mod exaone;
pub mod falcon;
pub mod flux;
pub mod gemma;
pub mod glm;
pub mod gpt2;
pub mod gpt_neox;
pub mod gpt_oss;
pub mod granite;
pub mod grok;
pub mod grovemoe;
pub mod hidream;
pub mod hrm_text;
pub mod hunyuan;
pub mod hunyuan_video;
pub mod idefics3;
pub mod internlm;
pub mod internvl;
pub mod jais;
pub mod jamba;
pub mod janus;
pub mod k2_horizon;
pub mod kimi;
pub mod krea;
pub mod laguna;
pub mod lfm2;
pub mod lightonocr;
pub mod llada;
pub mod llama;
pub mod llava;
pub mod ltx;
pub mod lumina;
pub mod maincoder;
pub mod mamba;
pub mod maple;
pub mod mellum;
pub mod meralion;
pub mod mimo2;
pub mod minicpm;
pub mod minimax;
pub mod mistral;
pub mod mpt;
pub mod muse_glimmer;
pub mod nanbeige;
pub mod nemotron;
pub mod olmo;
pub mod openelm;
pub mod orion;
pub mod paddleocr;
pub mod pangu;
pub mod persimmon;
pub mod phi;
pub mod plamo;
pub mod plm;
pub mod pockettts;
pub mod qwen;
pub mod qwen_image;
pub mod refact;
pub mod rnd1;
pub mod rwkv;
pub mod sd;
pub mod seed_oss;
pub mod siglip;
pub mod smallthinker;
pub mod smollm3;
pub mod solar_open;
pub mod spark;
pub mod stablelm;
pub mod starcoder;
pub mod step;
pub mod t5;
pub mod talkie;
pub mod wan;
pub mod wavtokenizer;
pub mod whisper;
pub mod xverse;
pub mod youtu;

use crate::family::Family;

/// Every family with architectures or projectors.
pub const FOLDERS: &[Family] = &[
    afmoe::FAMILY,
    apertus::FAMILY,
    arcee::FAMILY,
    arctic::FAMILY,
    auraflow::FAMILY,
    baichuan::FAMILY,
    bailing::FAMILY,
    bamba::FAMILY,
    bert::FAMILY,
    bitnet::FAMILY,
    bloom::FAMILY,
    chameleon::FAMILY,
    codeshell::FAMILY,
    cogvlm::FAMILY,
    cohere::FAMILY,
    cosmos::FAMILY,
    dbrx::FAMILY,
    deci::FAMILY,
    deepseek::FAMILY,
    dflash::FAMILY,
    dots::FAMILY,
    dream::FAMILY,
    eagle3::FAMILY,
    ernie::FAMILY,
    exaone::FAMILY,
    falcon::FAMILY,
    flux::FAMILY,
    gemma::FAMILY,
    glm::FAMILY,
    gpt2::FAMILY,
    gpt_neox::FAMILY,
    gpt_oss::FAMILY,
    granite::FAMILY,
    grok::FAMILY,
    grovemoe::FAMILY,
    hidream::FAMILY,
    hrm_text::FAMILY,
    hunyuan::FAMILY,
    hunyuan_video::FAMILY,
    idefics3::FAMILY,
    internlm::FAMILY,
    internvl::FAMILY,
    jais::FAMILY,
    jamba::FAMILY,
    janus::FAMILY,
    k2_horizon::FAMILY,
    kimi::FAMILY,
    krea::FAMILY,
    laguna::FAMILY,
    lfm2::FAMILY,
    lightonocr::FAMILY,
    llada::FAMILY,
    llama::FAMILY,
    llava::FAMILY,
    ltx::FAMILY,
    lumina::FAMILY,
    maincoder::FAMILY,
    mamba::FAMILY,
    maple::FAMILY,
    mellum::FAMILY,
    meralion::FAMILY,
    mimo2::FAMILY,
    minicpm::FAMILY,
    minimax::FAMILY,
    mistral::FAMILY,
    mpt::FAMILY,
    muse_glimmer::FAMILY,
    nanbeige::FAMILY,
    nemotron::FAMILY,
    olmo::FAMILY,
    openelm::FAMILY,
    orion::FAMILY,
    paddleocr::FAMILY,
    pangu::FAMILY,
    persimmon::FAMILY,
    phi::FAMILY,
    plamo::FAMILY,
    plm::FAMILY,
    pockettts::FAMILY,
    qwen::FAMILY,
    qwen_image::FAMILY,
    refact::FAMILY,
    rnd1::FAMILY,
    rwkv::FAMILY,
    sd::FAMILY,
    seed_oss::FAMILY,
    smallthinker::FAMILY,
    smollm3::FAMILY,
    solar_open::FAMILY,
    spark::FAMILY,
    stablelm::FAMILY,
    starcoder::FAMILY,
    step::FAMILY,
    t5::FAMILY,
    talkie::FAMILY,
    wan::FAMILY,
    wavtokenizer::FAMILY,
    whisper::FAMILY,
    xverse::FAMILY,
    youtu::FAMILY,
];

/// Keys and tensors that llama.cpp's loader needs, by family; first the architectures without a family.
pub const LOADER: &[&str] = &[
    include_str!("loader.txt"),
    include_str!("afmoe/loader.txt"),
    include_str!("apertus/loader.txt"),
    include_str!("arcee/loader.txt"),
    include_str!("arctic/loader.txt"),
    include_str!("baichuan/loader.txt"),
    include_str!("bailing/loader.txt"),
    include_str!("bert/loader.txt"),
    include_str!("bitnet/loader.txt"),
    include_str!("bloom/loader.txt"),
    include_str!("chameleon/loader.txt"),
    include_str!("codeshell/loader.txt"),
    include_str!("cogvlm/loader.txt"),
    include_str!("cohere/loader.txt"),
    include_str!("dbrx/loader.txt"),
    include_str!("deci/loader.txt"),
    include_str!("deepseek/loader.txt"),
    include_str!("dflash/loader.txt"),
    include_str!("dots/loader.txt"),
    include_str!("dream/loader.txt"),
    include_str!("eagle3/loader.txt"),
    include_str!("ernie/loader.txt"),
    include_str!("exaone/loader.txt"),
    include_str!("falcon/loader.txt"),
    include_str!("gemma/loader.txt"),
    include_str!("glm/loader.txt"),
    include_str!("gpt2/loader.txt"),
    include_str!("gpt_neox/loader.txt"),
    include_str!("gpt_oss/loader.txt"),
    include_str!("granite/loader.txt"),
    include_str!("grok/loader.txt"),
    include_str!("grovemoe/loader.txt"),
    include_str!("hrm_text/loader.txt"),
    include_str!("hunyuan/loader.txt"),
    include_str!("internlm/loader.txt"),
    include_str!("jais/loader.txt"),
    include_str!("jamba/loader.txt"),
    include_str!("k2_horizon/loader.txt"),
    include_str!("kimi/loader.txt"),
    include_str!("laguna/loader.txt"),
    include_str!("lfm2/loader.txt"),
    include_str!("llada/loader.txt"),
    include_str!("llama/loader.txt"),
    include_str!("maincoder/loader.txt"),
    include_str!("mamba/loader.txt"),
    include_str!("maple/loader.txt"),
    include_str!("mellum/loader.txt"),
    include_str!("mimo2/loader.txt"),
    include_str!("minicpm/loader.txt"),
    include_str!("minimax/loader.txt"),
    include_str!("mistral/loader.txt"),
    include_str!("mpt/loader.txt"),
    include_str!("muse_glimmer/loader.txt"),
    include_str!("nanbeige/loader.txt"),
    include_str!("nemotron/loader.txt"),
    include_str!("olmo/loader.txt"),
    include_str!("openelm/loader.txt"),
    include_str!("orion/loader.txt"),
    include_str!("paddleocr/loader.txt"),
    include_str!("pangu/loader.txt"),
    include_str!("phi/loader.txt"),
    include_str!("plamo/loader.txt"),
    include_str!("plm/loader.txt"),
    include_str!("pockettts/loader.txt"),
    include_str!("qwen/loader.txt"),
    include_str!("refact/loader.txt"),
    include_str!("rnd1/loader.txt"),
    include_str!("rwkv/loader.txt"),
    include_str!("seed_oss/loader.txt"),
    include_str!("smallthinker/loader.txt"),
    include_str!("smollm3/loader.txt"),
    include_str!("spark/loader.txt"),
    include_str!("stablelm/loader.txt"),
    include_str!("starcoder/loader.txt"),
    include_str!("step/loader.txt"),
    include_str!("t5/loader.txt"),
    include_str!("talkie/loader.txt"),
    include_str!("wavtokenizer/loader.txt"),
    include_str!("xverse/loader.txt"),
];

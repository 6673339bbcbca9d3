//! Model families, one folder for each. `BLESS=1 cargo test --test all repository::families` writes this file.

pub mod afmoe;
pub mod apertus;
pub mod arcee;
pub mod arctic;
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
pub mod dbrx;
pub mod deci;
pub mod decision;
pub mod deepseek;
pub mod dflash;
pub mod dots;
pub mod dream;
pub mod eagle3;
pub mod ernie;
pub mod exaone;
pub mod falcon;
pub mod gemma;
pub mod glm;
pub mod gpt2;
pub mod gpt_neox;
pub mod gpt_oss;
pub mod granite;
pub mod grok;
pub mod grovemoe;
pub mod hrm_text;
pub mod hunyuan;
pub mod idefics3;
pub mod internlm;
pub mod internvl;
pub mod jais;
pub mod jamba;
pub mod janus;
pub mod k2_horizon;
pub mod kimi;
pub mod laguna;
pub mod lfm2;
pub mod lightonocr;
pub mod llada;
pub mod llama;
pub mod llava;
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
pub mod refact;
pub mod rnd1;
pub mod rwkv;
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
    dbrx::FAMILY,
    deci::FAMILY,
    decision::FAMILY,
    deepseek::FAMILY,
    dflash::FAMILY,
    dots::FAMILY,
    dream::FAMILY,
    eagle3::FAMILY,
    ernie::FAMILY,
    exaone::FAMILY,
    falcon::FAMILY,
    gemma::FAMILY,
    glm::FAMILY,
    gpt2::FAMILY,
    gpt_neox::FAMILY,
    gpt_oss::FAMILY,
    granite::FAMILY,
    grok::FAMILY,
    grovemoe::FAMILY,
    hrm_text::FAMILY,
    hunyuan::FAMILY,
    idefics3::FAMILY,
    internlm::FAMILY,
    internvl::FAMILY,
    jais::FAMILY,
    jamba::FAMILY,
    janus::FAMILY,
    k2_horizon::FAMILY,
    kimi::FAMILY,
    laguna::FAMILY,
    lfm2::FAMILY,
    lightonocr::FAMILY,
    llada::FAMILY,
    llama::FAMILY,
    llava::FAMILY,
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
    refact::FAMILY,
    rnd1::FAMILY,
    rwkv::FAMILY,
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
    wavtokenizer::FAMILY,
    whisper::FAMILY,
    xverse::FAMILY,
    youtu::FAMILY,
];

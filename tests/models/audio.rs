//! Audio encoders of tiny checkpoints: embeddings of a sound and the predictions after it, compared with transformers and libmtmd;
//! sound files; invalid sounds; `gguf-eval generate --mmproj --audio`.

use std::fs;

use super::logits::read_values;
use crate::common::{Output, Sandbox, golden, largest_difference, succeed};
use gguf_runtime::{
    Error, Model, Options, Piece, Session,
    audio::{LogMel, Sound, resample},
    vision::Projector,
};

/// Largest allowed difference of a sound's embeddings, as a fraction of their range.
const ALLOWED_OF_ROWS: f32 = 2e-5;

/// The same for goldens of libmtmd, which are those with silence at the end: it rounds inputs of convolutions to f16.
const ALLOWED_OF_MTMD: f32 = 3e-4;

/// The same for logits.
const ALLOWED_OF_LOGITS: f32 = 2e-4;

/// Contents of `golden/audio/NAME/features.bin`.
struct Expected {
    n_embd: usize,
    range: f32,
    rows: Vec<f32>,
    /// Length of the sound and of the silence at its end, and its loudness.
    n_samples: usize,
    n_silent: usize,
    gain: f32,
    prompt: Option<ExpectedPrompt>,
}

struct ExpectedPrompt {
    before: Vec<u32>,
    after: Vec<u32>,
    positions: Vec<usize>,
    n_vocab: usize,
    range: f32,
    /// (positions, n_vocab).
    logits: Vec<f32>,
}

fn expected(name: &str) -> Expected {
    let (head, mut values) = read_values(&golden("audio").join(name).join("features.bin"));
    let number = |key: &str| head[key].as_u64().unwrap() as usize;
    let list = |key: &str| -> Vec<u32> {
        head[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
    };
    let rows: Vec<f32> = values.drain(..number("n_rows") * number("n_embd")).collect();
    let prompt = head.get("before").map(|_| ExpectedPrompt {
        before: list("before"),
        after: list("after"),
        positions: list("positions").into_iter().map(|position| position as usize).collect(),
        n_vocab: number("n_vocab"),
        range: head["logits_range"].as_f64().unwrap() as f32,
        logits: values,
    });
    Expected {
        n_embd: number("n_embd"),
        range: head["range"].as_f64().unwrap() as f32,
        rows,
        n_samples: number("n_samples"),
        n_silent: number("n_silent"),
        gain: number("gain") as f32,
        prompt,
    }
}

fn options() -> Options {
    Options { threads: Some(1), ..Options::new(gguf_models::GRAPHS) }
}

fn sound_of(name: &str) -> Sound {
    Sound::read(fs::read(golden("audio").join(name)).unwrap()).unwrap()
}

fn floats(name: &str) -> Vec<f32> {
    let bytes = fs::read(golden("audio").join(name)).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// The sound from which a golden was made.
fn heard(expected: &Expected) -> Sound {
    let sound = sound_of("sound.wav");
    let mut samples: Vec<f32> =
        sound.samples().iter().map(|x| x * expected.gain).cycle().take(expected.n_samples).collect();
    samples[expected.n_samples - expected.n_silent..].fill(0.0);
    Sound::new(16_000, samples).unwrap()
}

/// `mmproj.gguf` of a checkpoint, and `model.gguf` if the golden has logits.
fn converted(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_audio(name);
    let mut calls = vec![vec!["mmproj.gguf", "--mmproj"]];
    if expected(name).prompt.is_some() {
        calls.push(vec!["model.gguf", "--pre", "llama-bpe"]);
    }
    for args in calls {
        let ran = sandbox.convert(&[&[name], &args[..], &["-t", "f32", "-q"]].concat());
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
    }
    sandbox
}

#[test]
fn sound_files_have_the_samples_of_libsndfile() {
    let wav = sound_of("sound.wav");
    assert_eq!((wav.rate(), wav.samples().len()), (16_000, 7200));
    // 16 bits, after a header of 44 bytes.
    let bytes = fs::read(golden("audio/sound.wav")).unwrap();
    let expected =
        bytes[44..].as_chunks::<2>().0.iter().map(|two| f32::from(i16::from_le_bytes(*two)) / 32768.0);
    assert!(wav.samples().iter().copied().eq(expected));
    assert_eq!(sound_of("sound.flac"), wav);
    // Lengths as in a file that was written to a pipe.
    let mut piped = bytes.clone();
    [4..8, 40..44].into_iter().for_each(|length| piped[length].fill(0xff));
    assert_eq!(Sound::read(piped).unwrap(), wav);
    let (mp3, expected) = (sound_of("sound.mp3"), floats("sound.mp3.f32"));
    assert_eq!((mp3.rate(), mp3.samples().len()), (16_000, expected.len()));
    let worst = largest_difference(&expected, mp3.samples());
    println!("sound.mp3: {worst:.1e}");
    assert!(worst < 1e-4, "{worst}");
}

#[test]
fn channels_are_averaged_and_resampled_like_soxr() {
    let stereo = sound_of("stereo.wav");
    assert_eq!((stereo.rate(), stereo.samples().len()), (44_100, 8820));
    let (made, expected) = (resample(stereo.samples(), stereo.rate(), 16_000), floats("stereo.f32"));
    assert_eq!(made.len(), expected.len());
    // The ends differ, because the filters have different lengths.
    let inner = 200..made.len() - 200;
    let worst = largest_difference(&expected[inner.clone()], &made[inner]);
    let loudest = expected.iter().fold(0.0f32, |loudest, x| loudest.max(x.abs()));
    println!("stereo.wav: {worst:.1e} of {loudest:.2}");
    // The filters differ above 7.2 kHz, if the noise has an amplitude of 0.01.
    assert!(worst < 0.02 * loudest, "{worst}");
}

#[test]
fn spectrograms_match_transformers() {
    for n_mels in [80, 128] {
        let (made, expected) = (
            LogMel::whisper(n_mels).run(sound_of("sound.wav").samples()),
            floats(&format!("spectrogram-{n_mels}.f32")),
        );
        assert_eq!((made.nrows(), made.ncols()), (45, n_mels));
        let (low, high) =
            expected.iter().fold((f32::MAX, f32::MIN), |(low, high), x| (low.min(*x), high.max(*x)));
        let worst = largest_difference(&expected, made.as_slice()) / (high - low);
        println!("{n_mels} bands: {worst:.1e}");
        assert!(worst < 1e-5, "{n_mels} bands: {worst:.1e} of the range");
    }
}

#[test]
fn sound_embeddings_match_transformers_and_mtmd() {
    let mut wrong = String::new();
    for name in gguf_testkit::audio_names() {
        let sandbox = converted(&name);
        let projector = Projector::open(&sandbox.path("mmproj.gguf"), &options()).unwrap();
        let expected = expected(&name);
        assert_eq!(projector.n_embd(), expected.n_embd);
        let made = projector.embed_sound(&heard(&expected)).unwrap();
        assert_eq!(made.rows().len(), expected.rows.len(), "{name}");
        let worst = largest_difference(&expected.rows, made.rows()) / expected.range;
        println!("{name}: {worst:.1e}");
        if worst > if expected.n_silent > 0 { ALLOWED_OF_MTMD } else { ALLOWED_OF_ROWS } {
            wrong += &format!("{name}: {worst:.1e} of the range\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn predictions_after_sound_match_transformers() {
    let (mut wrong, mut n) = (String::new(), 0);
    for name in gguf_testkit::audio_names() {
        let expected = expected(&name);
        let Some(prompt) = &expected.prompt else { continue };
        let sandbox = converted(&name);
        let model = Model::open(&sandbox.path("model.gguf"), &options()).unwrap();
        let projector = Projector::open(&sandbox.path("mmproj.gguf"), &options()).unwrap();
        projector.check_fits(&model).unwrap();
        let made = projector.embed_sound(&heard(&expected)).unwrap();
        let pieces = [Piece::Tokens(&prompt.before), Piece::Picture(&made), Piece::Tokens(&prompt.after)];
        let n_rows: usize = pieces.iter().map(Piece::n_rows).sum();
        let hidden = model.read(&mut Session::new(), &pieces, 0..n_rows).unwrap();
        let mut logits = vec![0.0; n_rows * model.n_vocab()];
        model.logits(&hidden, 0..n_rows, None, &mut logits).unwrap();
        let row = |position: usize| &logits[position * model.n_vocab()..][..prompt.n_vocab];
        let rows = prompt.positions.iter().zip(prompt.logits.chunks(prompt.n_vocab));
        let worst = rows.map(|(position, want)| largest_difference(want, row(*position))).fold(0.0, f32::max);
        println!("{name}: {:.1e}", worst / prompt.range);
        if worst > ALLOWED_OF_LOGITS * prompt.range {
            wrong += &format!("{name}: {:.1e} of the range\n", worst / prompt.range);
        }

        // The same in parts, with tokens after the sound one by one.
        let mut session = Session::new();
        let start = prompt.before.len() + made.n_rows();
        model.read(&mut session, &pieces[..1], 0..0).unwrap();
        model.read(&mut session, &pieces[1..2], 0..0).unwrap();
        for (i, token) in prompt.after.iter().enumerate() {
            let hidden = model.continue_with(&mut session, &[*token]).unwrap();
            let mut alone = vec![0.0; model.n_vocab()];
            model.logits(&hidden, 0..1, None, &mut alone).unwrap();
            let differs = largest_difference(row(start + i), &alone[..prompt.n_vocab]);
            assert!(differs < ALLOWED_OF_LOGITS * prompt.range, "{name}, token {i}: {differs}");
        }
        n += 1;
    }
    assert!(wrong.is_empty() && n > 2, "{wrong}");
}

#[test]
fn audio_encoders_open_or_report_their_type() {
    let (sandbox, mut n) = (Sandbox::new(), 0);
    let sound = sound_of("sound.wav");
    for name in gguf_testkit::projector_names() {
        let folder = gguf_testkit::projector(&name);
        let file = format!("{name}.gguf");
        let ran = sandbox.convert(&[folder.to_str().unwrap(), &file, "--mmproj", "-t", "f16", "-q"]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        match Projector::open(&sandbox.path(&file), &options())
            .and_then(|projector| projector.embed_sound(&sound))
        {
            Ok(made) => {
                assert!(made.n_rows() > 0, "{name}");
                n += 1;
            }
            Err(Error::UnknownProjector { .. } | Error::NoAudioEncoder | Error::NoVisionTower) => (),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    assert!(n >= 8, "{n} projectors");
}

#[test]
fn invalid_sounds_are_refused() {
    let good =
        ["sound.wav", "sound.flac", "sound.mp3"].map(|name| fs::read(golden("audio").join(name)).unwrap());
    for bytes in &good[..2] {
        for n in [14, 40, bytes.len() / 2, bytes.len() - 60] {
            let error = Sound::read(bytes[..n].to_vec()).unwrap_err();
            assert!(matches!(error, Error::BrokenSound { .. }), "{n} bytes: {error}");
        }
    }
    gguf_testkit::mutants(600, |draw| {
        let mut bytes = draw.of(&good).clone();
        gguf_testkit::mutate(&mut bytes, draw);
        Sound::read(bytes).is_ok()
    });
    // A header with an impossible sample rate.
    let mut wav = good[0].clone();
    wav[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(Sound::read(wav).unwrap_err(), Error::BrokenSound { format: "WAV", .. }));
    let mut wav = good[0].clone();
    wav[22..24].copy_from_slice(&u16::MAX.to_le_bytes());
    assert!(Sound::read(wav).unwrap_err().to_string().contains("65535 channels"));
    assert!(matches!(Sound::read(b"OggS".to_vec()).unwrap_err(), Error::NotASound));
    assert!(matches!(Sound::read(Vec::new()).unwrap_err(), Error::NotASound));
}

fn generate(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.eval(&[&["generate"], args].concat())
}

#[test]
fn model_generates_about_a_sound() {
    let sandbox = converted("voxtral");
    for name in ["sound.wav", "sound.mp3", "stereo.wav"] {
        fs::copy(golden("audio").join(name), sandbox.path(name)).unwrap();
    }
    let ask = |more: &[&str]| {
        let args = ["model.gguf", "--mmproj", "mmproj.gguf", "-n", "5", "-j", "1"];
        generate(&sandbox, &[&args[..], more].concat())
    };
    let one = succeed(ask(&["--prompt", "a llama", "--audio", "sound.wav"]));
    one.says("warning: missing token `[BEGIN_AUDIO]` in the vocabulary");
    one.says(" tokens after ");
    for place in ["<__media__>", "<__audio__>"] {
        let answer = ask(&["--prompt", &format!("{place}a llama"), "--audio", "sound.wav"]);
        assert_eq!(answer.stdout, one.stdout);
    }
    let two = ["--audio", "sound.mp3", "--audio", "stereo.wav"];
    succeed(ask(&[&["--prompt", "a <__media__> llama <__media__>"], &two[..]].concat()));
}

#[test]
fn images_and_sounds_share_a_prompt() {
    let sandbox = converted("gemma4");
    fs::copy(golden("audio/sound.wav"), sandbox.path("s.wav")).unwrap();
    fs::copy(golden("vision/picture.png"), sandbox.path("p.png")).unwrap();
    let ask = |prompt: &str| {
        let args = [
            "model.gguf",
            "--mmproj",
            "mmproj.gguf",
            "-n",
            "5",
            "-j",
            "1",
            "--audio",
            "s.wav",
            "--image",
            "p.png",
        ];
        generate(&sandbox, &[&args[..], &["--prompt", prompt]].concat())
    };
    // Without marks, images come first, regardless of the order of the options.
    let first = succeed(ask("a llama"));
    assert_eq!(ask("<__image__><__audio__>a llama").stdout, first.stdout);
    assert_ne!(succeed(ask("<__audio__><__image__>a llama")).stdout, first.stdout);
    for (prompt, message) in [
        ("<__media__> and <__media__>", "ambiguous with images and audio"),
        ("<__image__> and <__image__>", "expected 1 image placeholders"),
        ("<__image__>", "expected 1 audio placeholders (`<__audio__>`)"),
    ] {
        let ran = ask(prompt);
        assert!(ran.code == Some(2) && ran.stderr.contains(message), "{prompt}: {}", ran.stderr);
    }
}

#[test]
fn long_sounds_are_cut_with_a_warning() {
    let sandbox = converted("qwen2audio");
    fs::copy(golden("audio/sound.wav"), sandbox.path("s.wav")).unwrap();
    let args =
        ["model.gguf", "--mmproj", "mmproj.gguf", "-n", "2", "-j", "1", "--audio", "s.wav", "--prompt", "x"];
    succeed(generate(&sandbox, &args)).says("s.wav: the model uses the first 0.32 of 0.45 seconds");
}

#[test]
fn unsupported_sounds_are_refused() {
    let sandbox = converted("voxtral");
    fs::copy(golden("audio/sound.wav"), sandbox.path("s.wav")).unwrap();
    fs::copy(golden("vision/picture.png"), sandbox.path("p.png")).unwrap();
    sandbox.write("text.wav", "no sound");
    let wav = sandbox.read("s.wav");
    sandbox.write("cut.wav", &wav[..wav.len() / 2]);
    for (name, to) in [("gemma4", "images.gguf"), ("gemma4-audio", "both.gguf")] {
        let folder = gguf_testkit::projector(name);
        succeed(sandbox.convert(&[folder.to_str().unwrap(), to, "--mmproj", "-t", "f32", "-q"]));
    }
    let llama = gguf_testkit::checkpoint("llama");
    succeed(sandbox.convert(&[llama.to_str().unwrap(), "wide.gguf", "-t", "f32", "-q"]));
    let cases: &[(&[&str], i32, &str)] = &[
        (&["model.gguf", "--audio", "s.wav"], 2, "--mmproj"),
        (&["model.gguf", "--mmproj", "mmproj.gguf"], 2, "--audio"),
        (&["model.gguf", "--mmproj", "mmproj.gguf", "--audio", "none.wav"], 1, "none.wav: cannot open"),
        (&["model.gguf", "--mmproj", "mmproj.gguf", "--audio", "text.wav"], 1, "not a WAV, FLAC or MP3 file"),
        (&["model.gguf", "--mmproj", "mmproj.gguf", "--audio", "p.png"], 1, "not a WAV, FLAC or MP3 file"),
        (&["model.gguf", "--mmproj", "mmproj.gguf", "--audio", "cut.wav"], 1, "cut.wav: WAV file: "),
        (&["model.gguf", "--mmproj", "mmproj.gguf", "--image", "p.png"], 1, "does not have a vision tower"),
        (&["model.gguf", "--mmproj", "images.gguf", "--audio", "s.wav"], 1, "does not have an audio encoder"),
        (&["model.gguf", "--mmproj", "model.gguf", "--audio", "s.wav"], 1, "not a projector"),
        (&["wide.gguf", "--mmproj", "mmproj.gguf", "--audio", "s.wav"], 1, "embeddings of 32 values"),
    ];
    for (args, code, message) in cases {
        let ran = generate(&sandbox, &[args, &["--prompt", "x"][..]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(*code), ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
    let args =
        ["model.gguf", "--mmproj", "mmproj.gguf", "--audio", "s.wav", "--prompt", "<__media__> <__media__>"];
    let ran = generate(&sandbox, &args);
    assert!(ran.code == Some(2) && ran.stderr.contains("expected 1 audio placeholders"), "{}", ran.stderr);
}

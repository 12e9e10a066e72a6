//! Kernels for graphics processors that are not here: their texts are sound, become Metal's, Vulkan's and DirectX' languages, and have nothing in
//! them that is known to be compiled wrongly. `QSF_EMIT_DIR=DIR` keeps what was written, for the compilers of those systems.

use std::path::{Path, PathBuf};

use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use qsf_runtime::gpu::{KernelText, kernel_texts};

fn validated(kernel: &KernelText) -> (naga::Module, ModuleInfo) {
    let module = naga::front::wgsl::parse_str(&kernel.wgsl)
        .unwrap_or_else(|e| panic!("{}: {}", kernel.name, e.emit_to_string(&kernel.wgsl)));
    let mut capabilities = Capabilities::IMMEDIATES | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    if kernel.square.is_some() {
        capabilities |= Capabilities::SHADER_FLOAT16 | Capabilities::COOPERATIVE_MATRIX;
    }
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .unwrap_or_else(|e| panic!("{}: {}", kernel.name, e.emit_to_string(&kernel.wgsl)));
    (module, info)
}

fn metal(kernel: &KernelText, version: (u8, u8)) -> String {
    let (module, info) = validated(kernel);
    let options =
        msl::Options { lang_version: version, fake_missing_bindings: true, ..msl::Options::default() };
    msl::write_string(&module, &info, &options, &msl::PipelineOptions::default())
        .unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
        .0
}

fn keep(name: &str, extension: &str, bytes: &[u8]) {
    if let Some(dir) = std::env::var_os("QSF_EMIT_DIR") {
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(PathBuf::from(dir).join(format!("{name}.{extension}")), bytes).unwrap();
    }
}

#[test]
fn every_kernel_becomes_metal_and_names_nothing_that_apple_compiles_wrongly() {
    for kernel in kernel_texts().iter().filter(|kernel| kernel.square != Some(16)) {
        for version in [(2, 4), (3, 1)] {
            let text = metal(kernel, version);
            // With a bound of 32 threads, matrix kernels compute nonsense (tracel-ai/cubek 645).
            assert!(!text.contains("max_total_threads_per_threadgroup(32)"), "{}", kernel.name);
            // Metal has matrices of 8 x 8 only, which are loaded from scalars.
            let on_units = text.contains("simdgroup_half8x8") && text.contains("threadgroup half* ptr");
            assert_eq!(on_units, kernel.square == Some(8), "{}", kernel.name);
            assert!(!text.contains("simdgroup_half16x16"), "{}", kernel.name);
            // The address of four values is none of a value.
            assert!(kernel.square.is_none() || !text.contains("half4, "), "{}", kernel.name);
            if version == (2, 4) {
                keep(&kernel.name, "metal", text.as_bytes());
            }
        }
    }
}

#[test]
fn every_kernel_becomes_vulkan_and_directx() {
    for kernel in kernel_texts().iter().filter(|kernel| kernel.square != Some(8)) {
        let (module, info) = validated(kernel);
        let options = spv::Options { lang_version: (1, 4), ..spv::Options::default() };
        let words =
            spv::write_vec(&module, &info, &options, None).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        keep(&kernel.name, "spv", &bytes);
        if kernel.square.is_some() {
            continue;
        }
        let options = hlsl::Options {
            shader_model: hlsl::ShaderModel::V6_0,
            fake_missing_bindings: true,
            immediates_target: Some(hlsl::BindTarget { space: 1, ..hlsl::BindTarget::default() }),
            ..hlsl::Options::default()
        };
        let mut text = String::new();
        hlsl::Writer::new(&mut text, &options, &hlsl::PipelineOptions::default())
            .write(&module, &info, None)
            .unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        keep(&kernel.name, "hlsl", text.as_bytes());
    }
}

#[test]
fn workgroups_are_of_64_threads_or_more_and_subgroups_of_no_size_are_relied_on() {
    for kernel in kernel_texts() {
        let (module, _) = validated(&kernel);
        let threads: u32 = module.entry_points[0].workgroup_size.iter().product();
        assert!(threads >= 64, "{}: {threads}", kernel.name);
        assert!(
            !kernel.wgsl.contains("enable subgroups") && !kernel.wgsl.contains("subgroup_size"),
            "{}",
            kernel.name
        );
    }
}

/// What Metal gets is looked at when it changes: `QSF_UPDATE=1` writes it anew.
#[test]
fn metal_texts_are_those_that_were_looked_at() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/metal");
    for name in [
        "mat-vec-4bit",
        "mat-vec-integers-2bit",
        "mat-mat-8-4bit",
        "mat-vec-gated-n4",
        "mat-vec-t2",
        "mat-vec-x4",
        "attend-128-true",
        "norm-rms-1-Sequential-true",
        "place-128-true",
        "attend-128-8bit-true",
        "place-128-8bit-true",
        "join-128-8bit",
        "likeliest-logits",
    ] {
        let kernel = kernel_texts().into_iter().find(|kernel| kernel.name == name).unwrap();
        let (path, text) = (folder.join(format!("{name}.metal")), metal(&kernel, (2, 4)));
        if std::env::var_os("QSF_UPDATE").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(known == text, "{name} became another text: look at it, then QSF_UPDATE=1");
    }
}

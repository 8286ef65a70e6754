//! What keeps a job on a shared GPU to its part, from outside: variables that the libraries' own allocators read.
//! They are a second line behind the reservation. A job whose library knows none of them is only watched.

use gpulane_model::{Bytes, env_vars};

use super::torch::Version;

/// What a process holds on a GPU beside what its allocator gives out: the CUDA context, kernels, library handles.
const CONTEXT: Bytes = Bytes(512 << 20);

/// The first torch that knows the key below. An older one ends with an error at a key it does not know.
const TORCH_WITH_FRACTION: Version = Version { major: 2, minor: 10 };
const FRACTION: &str = "per_process_memory_fraction";

/// Variables that we add to where the user has set them, instead of leaving them alone.
pub(super) const ADDED_TO: [&str; 2] = [env_vars::PYTORCH_CUDA_ALLOC_CONF, env_vars::PYTORCH_ALLOC_CONF];

/// The variables for a job that shares its GPU or whose memory is to be measured. `reserve`: what it may take of
/// each GPU, if that is decided; `total`: all memory of its smallest GPU; `set`: what the user has set a variable to;
/// `torch`: the torch it would import, if that is known.
pub(super) fn variables(
    reserve: Option<Bytes>,
    total: Bytes,
    set: impl Fn(&str) -> Option<String>,
    torch: Option<Version>,
) -> Vec<(&'static str, String)> {
    let cap = reserve.filter(|reserve| *reserve > CONTEXT).map(cap);
    let fraction = cap.map(|cap| fraction(cap, total.0));
    // What is taken before it is needed would be measured as needed.
    let mut variables = vec![
        (env_vars::XLA_PYTHON_CLIENT_PREALLOCATE, "false".to_owned()),
        (env_vars::TF_FORCE_GPU_ALLOW_GROWTH, "true".to_owned()),
    ];
    variables.extend(cap.map(|cap| (env_vars::CUPY_GPU_MEMORY_LIMIT, cap.to_string())));
    // JAX refuses to start if the variable is set under both of its names.
    let jax = fraction.clone().filter(|_| set(env_vars::XLA_CLIENT_MEM_FRACTION).is_none());
    variables.extend(jax.map(|fraction| (env_vars::XLA_PYTHON_CLIENT_MEM_FRACTION, fraction)));
    variables.retain(|(name, _)| set(name).is_none());
    if let Some(fraction) = fraction.filter(|_| torch.is_some_and(|torch| torch >= TORCH_WITH_FRACTION)) {
        variables.extend(torch_caps(&fraction, set));
    }
    variables
}

/// What an allocator may give out: the reservation without the context, or without a tenth where the context is smaller
/// than we think; a cap must not cut into what a job was measured to need.
fn cap(reserve: Bytes) -> u64 {
    reserve.0.saturating_sub(CONTEXT.0).max(reserve.0 - reserve.0 / 10)
}

/// Adds the cap to what the user tells torch, under the name they used: torch reads only one of the two, and which
/// has changed between releases.
fn torch_caps(fraction: &str, set: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, String)> {
    let told: Vec<_> = ADDED_TO.into_iter().filter_map(|name| Some((name, set(name)?))).collect();
    if told.is_empty() {
        return vec![(env_vars::PYTORCH_CUDA_ALLOC_CONF, format!("{FRACTION}:{fraction}"))];
    }
    if told.iter().any(|(_, value)| value.contains(FRACTION)) {
        return Vec::new();
    }
    let add = |value: String| match value.trim().trim_end_matches(',') {
        "" => format!("{FRACTION}:{fraction}"),
        before => format!("{before},{FRACTION}:{fraction}"),
    };
    told.into_iter().map(|(name, value)| (name, add(value))).collect()
}

/// With four decimals, rounded up: the cap must not cut into what was reserved.
fn fraction(part: u64, total: u64) -> String {
    let of_ten_thousand = (u128::from(part) * 10_000).div_ceil(u128::from(total.max(1))).clamp(1, 10_000);
    format!("{}.{:04}", of_ten_thousand / 10_000, of_ten_thousand % 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const TOTAL: Bytes = Bytes(80 * GIB);
    const NEW: Option<Version> = Some(Version { major: 2, minor: 10 });

    fn with(reserve: Option<Bytes>, torch: Option<Version>, user: &[(&str, &str)]) -> Vec<String> {
        let set =
            |name: &str| user.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let variables = variables(reserve, TOTAL, set, torch);
        variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_packed_job_is_capped_context_excluded() {
        assert_eq!(
            with(Some(Bytes(8 * GIB + GIB / 2)), NEW, &[]),
            [
                "XLA_PYTHON_CLIENT_PREALLOCATE=false",
                "TF_FORCE_GPU_ALLOW_GROWTH=true",
                "CUPY_GPU_MEMORY_LIMIT=8589934592",
                "XLA_PYTHON_CLIENT_MEM_FRACTION=0.1000",
                "PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:0.1000",
            ]
        );
    }

    #[test]
    fn a_job_to_be_measured_takes_memory_as_it_needs_it() {
        let growth = ["XLA_PYTHON_CLIENT_PREALLOCATE=false", "TF_FORCE_GPU_ALLOW_GROWTH=true"];
        assert_eq!(with(None, NEW, &[]), growth);
        assert_eq!(with(Some(CONTEXT), NEW, &[]), growth);
        assert_eq!(
            with(None, NEW, &[("XLA_PYTHON_CLIENT_PREALLOCATE", "true"), ("TF_FORCE_GPU_ALLOW_GROWTH", "")]),
            [""; 0]
        );
    }

    #[test]
    fn a_torch_that_may_not_know_the_key_is_not_told() {
        for torch in [None, Some(Version { major: 2, minor: 9 }), Some(Version { major: 1, minor: 13 })] {
            let variables = with(Some(Bytes(8 * GIB)), torch, &[]);
            assert!(!variables.iter().any(|variable| variable.contains(FRACTION)), "{variables:?}");
        }
    }

    #[test]
    fn what_the_user_tells_torch_stays() {
        let capped = |user: &[(&str, &str)]| {
            let mut variables = with(Some(Bytes(8 * GIB + GIB / 2)), NEW, user);
            variables.retain(|variable| variable.starts_with("PYTORCH"));
            variables
        };
        assert_eq!(
            capped(&[("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")]),
            ["PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,per_process_memory_fraction:0.1000"]
        );
        assert_eq!(
            capped(&[("PYTORCH_ALLOC_CONF", "expandable_segments:True,")]),
            ["PYTORCH_ALLOC_CONF=expandable_segments:True,per_process_memory_fraction:0.1000"]
        );
        assert_eq!(capped(&[("PYTORCH_CUDA_ALLOC_CONF", "per_process_memory_fraction:0.5")]), [""; 0]);
    }

    #[test]
    fn what_the_user_tells_the_others_stays_and_jax_never_hears_both_names() {
        for name in ["XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"] {
            let variables =
                with(Some(Bytes(8 * GIB)), None, &[(name, ".3"), ("CUPY_GPU_MEMORY_LIMIT", "50%")]);
            assert!(!variables.iter().any(|variable| variable.contains("FRACTION")), "{variables:?}");
            assert!(!variables.iter().any(|variable| variable.contains("CUPY")), "{variables:?}");
        }
    }

    #[test]
    fn fractions_are_rounded_up_and_never_more_than_all() {
        assert_eq!(fraction(1, 3), "0.3334");
        assert_eq!(fraction(1, u64::MAX), "0.0001");
        assert_eq!(fraction(5, 4), "1.0000");
        assert_eq!(fraction(1, 0), "1.0000");
    }
}

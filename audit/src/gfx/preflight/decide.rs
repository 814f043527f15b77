//! From what was found to one verdict, and whether to speak: pure functions, no file is touched.

use serde::Serialize;

use super::reasons;
use crate::gfx::identity::Identity;
use crate::gfx::verdict::{SYMPTOM, SYMPTOM_HIP, Verdict};
use crate::loader::Unknown;

/// One runtime that the command could load, and what it says about one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// Path inside the root.
    pub runtime: String,
    /// The rule that finds it, in words.
    pub how: String,
    /// Which layer it is.
    pub layer: Identity,
    /// False where it is loaded only if the program asks for it while it runs.
    pub linked: bool,
    /// Who else than root and the user who asks may change it, with the part of its path: the answer is as of now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changeable: Option<String>,
    /// The device, by the name of its target.
    pub device: String,
    /// The version the runtime is asked for, where that is another one (device id table, override).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_for: Option<String>,
    /// The ROCm release, where it is known.
    pub release: Option<String>,
    /// How many targets it registers; `None` where its registry could not be read.
    pub registers: Option<usize>,
    /// The answer.
    pub verdict: Verdict,
    /// A word for scripts.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// The answer about one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceVerdict {
    /// The device, by the name of its target.
    pub device: String,
    /// Where it comes from.
    pub from: String,
    /// ROCr's answer.
    pub rocr: Verdict,
    /// HIP's, where the program links it.
    pub hip: Option<Verdict>,
    /// Both together.
    pub verdict: Verdict,
}

/// All agree, or unknown.
fn unanimous(verdicts: impl Iterator<Item = Verdict>) -> Option<Verdict> {
    verdicts.reduce(|one, other| if one == other { one } else { Verdict::Unknown })
}

/// Judges one device. Only linked candidates have a say; anything in `unknowns` forbids an answer.
pub fn device(device: &str, from: &str, candidates: &[Candidate], unknowns: &[Unknown]) -> DeviceVerdict {
    let layer = |layer| {
        let voices = candidates.iter().filter(|candidate| candidate.device == device && candidate.linked && candidate.layer == layer);
        unanimous(voices.map(|candidate| candidate.verdict)).map(|verdict| if unknowns.is_empty() { verdict } else { Verdict::Unknown })
    };
    let (rocr, hip) = (layer(Identity::Rocr).unwrap_or(Verdict::Unknown), layer(Identity::Hip));
    let verdict = match (rocr, hip) {
        (Verdict::Supported, Some(hip)) => hip,
        (rocr, _) => rocr,
    };
    DeviceVerdict { device: device.into(), from: from.into(), rocr, hip, verdict }
}

/// One verdict for all devices; why there is none, if there is none.
pub fn together(devices: &[DeviceVerdict], unknowns: &mut Vec<Unknown>) -> Verdict {
    let verdict = unanimous(devices.iter().map(|device| device.verdict)).unwrap_or(Verdict::Unknown);
    if verdict == Verdict::Unknown && unknowns.is_empty() {
        let each = devices.iter().map(|device| format!("{} {}", device.device, device.verdict.word())).collect::<Vec<_>>().join(", ");
        unknowns.push(Unknown::new(&reasons::DISAGREE, "the candidates", each));
    }
    verdict
}

/// What to say before the workload starts: one line, or nothing where no device is surely unsupported.
pub fn notice(devices: &[DeviceVerdict], candidates: &[Candidate]) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for device in devices.iter().filter(|device| device.verdict == Verdict::Unsupported) {
        let layer = if device.rocr == Verdict::Unsupported { Identity::Rocr } else { Identity::Hip };
        let Some(candidate) = candidates.iter().find(|candidate| candidate.device == device.device && candidate.linked && candidate.layer == layer)
        else {
            continue;
        };
        let release = candidate.release.as_ref().map_or(String::new(), |release| format!(" (ROCm {release})"));
        let registers = candidate.registers.map_or("names other targets".into(), |count| format!("registers {count} targets"));
        let target = candidate.taken_for.as_ref().map_or(device.device.clone(), |other| format!("{} (taken for {other})", device.device));
        let symptom = if layer == Identity::Hip { SYMPTOM_HIP } else { SYMPTOM };
        parts.push(format!(
            "{target} is not supported by the runtime that this command loads: {}{release} {registers} and not this one; {symptom}",
            candidate.runtime
        ));
    }
    let first = devices.iter().find(|device| device.verdict == Verdict::Unsupported)?;
    (!parts.is_empty())
        .then(|| format!("{}; way out: a ROCm that knows {} (a newer image), or a GPU that this one knows", parts.join("; "), first.device))
}

#[cfg(test)]
mod tests {
    use super::{Candidate, device, notice, together};
    use crate::gfx::identity::Identity;
    use crate::gfx::verdict::Verdict::{self, Supported, Unknown, Unsupported};
    use crate::loader::Unknown as Why;

    fn candidate(layer: Identity, linked: bool, verdict: Verdict) -> Candidate {
        Candidate {
            runtime: "/opt/rocm/lib/libhsa-runtime64.so.1".into(),
            how: "RUNPATH".into(),
            layer,
            linked,
            changeable: None,
            device: "gfx1250".into(),
            taken_for: None,
            release: Some("7.0.2".into()),
            registers: Some(39),
            verdict,
            reason: "not-registered",
            message: String::new(),
        }
    }

    fn verdict(candidates: &[Candidate]) -> Verdict {
        device("gfx1250", "test", candidates, &[]).verdict
    }

    #[test]
    fn x5_several_candidates_have_to_agree() {
        let rocr = |verdict| candidate(Identity::Rocr, true, verdict);
        assert_eq!(verdict(&[rocr(Unsupported), rocr(Unsupported)]), Unsupported);
        assert_eq!(verdict(&[rocr(Supported), rocr(Supported)]), Supported);
        assert_eq!(verdict(&[rocr(Supported), rocr(Unsupported)]), Unknown);
        assert_eq!(verdict(&[]), Unknown, "no runtime is no answer");
        assert_eq!(verdict(&[candidate(Identity::Rocr, false, Unsupported)]), Unknown, "one that may never be opened has no say");
        let why = [Why { code: "unknown-script", object: "x".into(), detail: String::new() }];
        assert_eq!(device("gfx1250", "test", &[rocr(Unsupported)], &why).verdict, Unknown);
        let mut open = Vec::new();
        let two = [device("gfx1250", "a", &[rocr(Unsupported)], &[]), device("gfx1250", "b", &[rocr(Supported)], &[])];
        assert_eq!(together(&two, &mut open), Unknown);
        assert_eq!(open.len(), 1);
    }

    #[test]
    fn x4_hip_is_judged_apart() {
        let both = |rocr, hip| [candidate(Identity::Rocr, true, rocr), candidate(Identity::Hip, true, hip)];
        let answer = device("gfx1250", "test", &both(Supported, Unsupported), &[]);
        assert_eq!((answer.rocr, answer.hip, answer.verdict), (Supported, Some(Unsupported), Unsupported));
        assert_eq!(verdict(&both(Unsupported, Supported)), Unsupported);
        assert_eq!(verdict(&both(Supported, Unknown)), Unknown);
        assert_eq!(verdict(&both(Supported, Supported)), Supported);
    }

    #[test]
    fn s8_the_line_names_target_runtime_release_count_symptom_and_way_out() {
        let candidates = [candidate(Identity::Rocr, true, Unsupported)];
        let line = notice(&[device("gfx1250", "test", &candidates, &[])], &candidates).expect("unsupported speaks");
        for part in ["gfx1250", "/opt/rocm/lib/libhsa-runtime64.so.1", "(ROCm 7.0.2)", "39 targets", "no GPU at all", "status 0", "way out"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains('\n') && !line.contains("profile"));
    }

    #[test]
    fn the_line_speaks_of_the_device_and_layer_that_fail() {
        let of = |device: &str, layer, linked, verdict, runtime: &str| Candidate {
            device: device.into(),
            runtime: runtime.into(),
            ..candidate(layer, linked, verdict)
        };
        let candidates = [
            of("gfx942", Identity::Rocr, true, Supported, "/a"),
            of("gfx1250", Identity::Rocr, false, Unsupported, "/opened"),
            of("gfx1250", Identity::Hip, true, Unsupported, "/hip"),
            of("gfx1250", Identity::Rocr, true, Unsupported, "/rocr"),
        ];
        let devices = ["gfx942", "gfx1250"].map(|name| device(name, "test", &candidates, &[]));
        let line = notice(&devices, &candidates).expect("one is unsupported");
        assert!(
            line.starts_with("gfx1250 ") && line.contains(": /rocr (") && !["/a ", "/opened", "/hip"].iter().any(|other| line.contains(other)),
            "{line}"
        );
        // Of HIP alone, the line is about HIP.
        let candidates = [of("gfx1250", Identity::Rocr, true, Supported, "/rocr"), of("gfx1250", Identity::Hip, true, Unsupported, "/hip")];
        let line = notice(&[device("gfx1250", "test", &candidates, &[])], &candidates).expect("HIP does not know it");
        assert!(line.contains(": /hip ("), "{line}");
    }

    #[test]
    fn s9_no_release_no_parenthesis_and_silence_otherwise() {
        let mut candidates = [candidate(Identity::Rocr, true, Unsupported)];
        candidates[0].release = None;
        let line = notice(&[device("gfx1250", "test", &candidates, &[])], &candidates).expect("speaks");
        assert!(!line.contains("(ROCm") && !line.contains("()"), "{line}");
        for verdict in [Supported, Unknown] {
            let candidates = [candidate(Identity::Rocr, true, verdict)];
            assert_eq!(notice(&[device("gfx1250", "test", &candidates, &[])], &candidates), None);
        }
    }
}

//! Keys whose effect belongs to later versions: they are checked in full now, so that a plan written today is
//! right tomorrow, and a note says that they do nothing yet.

use gpulane_model::Standbys;
use toml::de::DeValue;

use crate::diagnostic::Span;
use crate::problems::Problems;
use crate::reader::{Node, Placed, count, text};
use crate::words::one_of;

pub(crate) fn standbys(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Standbys> {
    let standbys = match node.get_ref() {
        DeValue::String(_) => {
            one_of("standbys", &[("auto", Standbys::Auto), ("off", Standbys::Off)], node, problems)?
        }
        _ => match count("standbys", "\"auto\", \"off\" or a number per lane", 0..=64, node, problems)? {
            0 => Standbys::Off,
            number => Standbys::PerLane(number),
        },
    };
    if standbys != Standbys::Off {
        problems.not_yet("`standbys`", &node.span());
    }
    Some(standbys)
}

/// `FILE.py:name`, a function or a class.
pub(crate) fn python_object(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let written = text(key, node, problems)?;
    let sound = written.value.rsplit_once(':').is_some_and(|(file, object)| {
        !file.trim().is_empty()
            && !file.contains('\0')
            && object.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && object.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
    });
    if !sound {
        problems
            .error(&written.span, format!("`{key}` must name a file and what is in it"))
            .label("expected FILE.py:NAME")
            .help(match key {
                "model" => "write for example `embed.py:Embed`".to_owned(),
                _ => format!("write for example `{key} = \"train.py:main\"`"),
            });
        return None;
    }
    Some(written.value)
}

/// A Python function instead of a command. Cannot run yet.
pub(crate) fn entry(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Placed<String>> {
    let entry = python_object("entry", node, problems)?;
    cannot_run("entry", &node.span(), problems);
    Some(Placed::new(entry, node.span()))
}

fn cannot_run(key: &str, span: &Span, problems: &mut Problems<'_>) {
    problems
        .error(span, format!("not yet: stages with `{key}` come with a later version"))
        .label("this version runs stages with `command`")
        .help(
            "write `command = [\"python\", \"train.py\", \"--config\", \"{config}\", \"--out\", \"{out}\"]`",
        );
}

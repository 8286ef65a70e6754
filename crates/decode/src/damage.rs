//! What a decoder had to conceal or invent of a picture, and what becomes of the item then.

use gpulane_model::DamagePolicy;

use crate::{Form, Rejection};

/// What is damaged of a picture that was decoded all the same: units that were concealed, or made up where data is missing. Not what does no
/// harm to the pixels: a missing end mark, bytes behind the image data, notes that cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damage(Option<String>);

impl Damage {
    /// Every unit of the picture came from the file.
    pub(crate) const NONE: Self = Self(None);

    /// Some did not; `what` is the item's reason where damaged pictures fail: short, for a person, begun as other reasons are.
    pub(crate) fn of(what: impl Into<String>) -> Self {
        Self(Some(what.into()))
    }

    /// What it is, where there is any.
    pub(crate) fn into_reason(self) -> Option<String> {
        self.0
    }

    /// What becomes of the item: its form, marked where it is damaged and used nevertheless; then `flaw` says what is damaged.
    pub(crate) fn judged(
        self,
        policy: DamagePolicy,
        form: Form,
        flaw: &mut Option<String>,
    ) -> Result<Form, Rejection> {
        match (self.0, policy) {
            (None, _) => Ok(form),
            (Some(what), DamagePolicy::Fail) => Err(Rejection::broken(what)),
            (Some(what), DamagePolicy::Warn) => {
                *flaw = Some(what);
                Ok(Form { damaged: true, ..form })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn damage_fails_or_marks_the_item_as_asked() {
        let form = Form::flat(Kind::Bytes, 7);
        let what = "broken JPEG: a code that does not exist";
        let mut flaw = None;
        assert_eq!(Damage::NONE.judged(DamagePolicy::Fail, form, &mut flaw), Ok(form));
        assert_eq!(Damage::NONE.judged(DamagePolicy::Warn, form, &mut flaw), Ok(form));
        let failed = Err(Rejection::broken(what));
        assert_eq!(Damage::of(what).judged(DamagePolicy::Fail, form, &mut flaw), failed);
        assert_eq!(flaw, None);
        let marked = Ok(Form { damaged: true, ..form });
        assert_eq!(Damage::of(what).judged(DamagePolicy::Warn, form, &mut flaw), marked);
        assert_eq!(flaw.as_deref(), Some(what));
    }
}

//! How many of the JPEGs are left to the GPU to decode. It is raised while workers wait for items and lowered while items wait for
//! workers, in steps that get smaller each time the direction turns.

const FIRST_STEP: f32 = 0.16;
const LEAST_STEP: f32 = 0.01;
/// Below this part of its time a worker's waiting, or the loaders', is noise.
const NOISE: f64 = 0.03;

/// The share, from 0 to 1.
#[derive(Clone, Debug)]
pub struct Share {
    now: f32,
    step: f32,
    rose: Option<bool>,
}

impl Default for Share {
    fn default() -> Self {
        Self { now: 0.0, step: FIRST_STEP, rose: None }
    }
}

impl Share {
    /// The share now.
    pub fn now(&self) -> f32 {
        self.now
    }

    /// Of the last second or so: which part of their time workers waited for items, and loaders for a free slot. Returns the new share
    /// if it changes.
    pub fn on_look(&mut self, workers_waited: f64, loaders_waited: f64) -> Option<f32> {
        let rises = match (workers_waited > NOISE, loaders_waited > NOISE) {
            (true, false) => true,
            (false, true) => false,
            // Both wait a little: whoever waits more; nobody waits: it is right as it is.
            (true, true) if (workers_waited - loaders_waited).abs() > NOISE => {
                workers_waited > loaders_waited
            }
            _ => return None,
        };
        if self.rose.is_some_and(|rose| rose != rises) {
            self.step = (self.step / 2.0).max(LEAST_STEP);
        }
        self.rose = Some(rises);
        let before = self.now;
        self.now = (if rises { self.now + self.step } else { self.now - self.step }).clamp(0.0, 1.0);
        ((self.now - before).abs() > f32::EPSILON).then_some(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose CPUs load `cpu` a second, ship encoded `fast` a second, and whose GPU does `plain` a second, or `decoding` when it
    /// decodes as well. Returns items a second at that share, and who waits how much.
    fn machine(share: f64, cpu: f64, shipped: f64, plain: f64, decoding: f64) -> (f64, f64, f64) {
        let load = 1.0 / ((1.0 - share) / cpu + share / shipped);
        let work = 1.0 / ((1.0 - share) / plain + share / decoding);
        let rate = load.min(work);
        (rate, 1.0 - rate / work, 1.0 - rate / load)
    }

    #[test]
    fn it_finds_the_balance() {
        let mut share = Share::default();
        let mut rate = 0.0;
        for _ in 0..60 {
            let (now, workers, loaders) =
                machine(f64::from(share.now()), 10_000.0, 300_000.0, 20_000.0, 9_000.0);
            share.on_look(workers, loaders);
            rate = now;
        }
        let best = (0..=100)
            .map(|percent| machine(f64::from(percent) / 100.0, 10_000.0, 300_000.0, 20_000.0, 9_000.0).0)
            .fold(0.0, f64::max);
        assert!(rate > best * 0.96, "{rate} of {best} at {}", share.now());
    }

    #[test]
    fn nothing_is_left_to_a_gpu_that_is_busy_anyway() {
        let mut share = Share::default();
        for _ in 0..20 {
            share.on_look(0.0, 0.5);
        }
        assert!(share.now().abs() < f32::EPSILON);
    }
}

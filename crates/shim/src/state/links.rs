//! What programs link at run time (`cuLink*`): the texts of each image that a linker
//! has made, so that what is loaded from it is checked as the texts would be.

use driver::sys::CUjit_option;
use parking_lot::Mutex;
use runtime::ModulePart;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of images that are remembered; of more, the oldest are forgotten.
const REMEMBERED: usize = 256 << 20;

/// What a program has given to a linker.
#[derive(Debug)]
pub enum Input {
    /// PTX text.
    Ptx(String),
    /// A fat binary.
    Fatbin(Vec<u8>),
}

impl Input {
    /// As it would be loaded.
    fn part(&self) -> ModulePart<'_> {
        match self {
            Input::Ptx(text) => ModulePart::Ptx(text),
            Input::Fatbin(bytes) => ModulePart::Fatbin(bytes),
        }
    }
}

/// What an image was linked from.
#[derive(Debug, Default)]
pub struct Linked {
    inputs: Vec<Input>,
    /// Options of the linker whose values are numbers.
    pub options: Vec<(CUjit_option, usize)>,
}

impl Linked {
    /// The parts, as they would be loaded.
    pub fn parts(&self) -> Vec<ModulePart<'_>> {
        self.inputs.iter().map(Input::part).collect()
    }
}

/// An image that a linker has made.
struct Made {
    image: Vec<u8>,
    linked: Arc<Linked>,
}

/// See the module's header.
#[derive(Default)]
pub struct Links {
    /// By the linker's handle; `None` inside: it was given something that is not text,
    /// or cannot be linked again.
    open: Mutex<FxHashMap<u64, Option<Linked>>>,
    made: Mutex<VecDeque<Made>>,
}

impl Links {
    /// A linker was made. `options`: those whose values are numbers; `None` if it has
    /// others that say what is linked.
    pub fn begin(&self, linker: u64, options: Option<Vec<(CUjit_option, usize)>>) {
        let linked = options.map(|options| Linked {
            inputs: Vec::new(),
            options,
        });
        self.open.lock().insert(linker, linked);
    }

    /// A linker has taken an input; `None`: one that no text is known of.
    pub fn add(&self, linker: u64, input: Option<Input>) {
        if let Some(open) = self.open.lock().get_mut(&linker) {
            match (open.as_mut(), input) {
                (Some(linked), Some(input)) => linked.inputs.push(input),
                _ => *open = None,
            }
        }
    }

    /// A linker has made this image of what it was given.
    pub fn complete(&self, linker: u64, image: &[u8]) {
        let taken = self.open.lock().get_mut(&linker).and_then(Option::take);
        let Some(linked) = taken.filter(|linked| !linked.inputs.is_empty()) else {
            return;
        };
        let made = Made {
            image: image.to_vec(),
            linked: Arc::new(linked),
        };
        let mut all = self.made.lock();
        all.push_back(made);
        let mut bytes: usize = all.iter().map(|made| made.image.len()).sum();
        while bytes > REMEMBERED
            && let Some(old) = all.pop_front()
        {
            bytes -= old.image.len();
        }
    }

    /// A linker is gone.
    pub fn end(&self, linker: u64) {
        self.open.lock().remove(&linker);
    }

    /// What an image was linked from, if a linker of this process has made it.
    pub fn of(&self, image: &[u8]) -> Option<Arc<Linked>> {
        let all = self.made.lock();
        // The newest: the same code may have been linked with other options before. (An
        // image may be longer than its tables say: what follows them means nothing.)
        let mut newest_first = all.iter().rev();
        let is_it = |made: &&Made| !image.is_empty() && made.image.starts_with(image);
        newest_first.find(is_it).map(|made| made.linked.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(linked: &Linked) -> Vec<String> {
        let text = |part: &ModulePart<'_>| match part {
            ModulePart::Ptx(text) => (*text).to_string(),
            other => panic!("{other:?}"),
        };
        linked.parts().iter().map(text).collect()
    }

    #[test]
    fn an_image_leads_to_its_texts_and_no_other_does() {
        let links = Links::default();
        for (linker, text) in [(1, "one"), (2, "two")] {
            links.begin(linker, Some(Vec::new()));
            links.add(linker, Some(Input::Ptx(text.into())));
            links.add(linker, Some(Input::Ptx("both".into())));
            links.complete(linker, text.as_bytes());
            links.end(linker);
        }
        assert_eq!(texts(&links.of(b"two").unwrap()), ["two", "both"]);
        assert_eq!(texts(&links.of(b"one").unwrap()), ["one", "both"]);
        assert!(links.of(b"twoo").is_none() && links.of(b"").is_none());
    }

    #[test]
    fn what_holds_machine_code_has_no_texts() {
        let links = Links::default();
        links.begin(1, Some(Vec::new()));
        links.add(1, Some(Input::Ptx("text".into())));
        links.add(1, None);
        links.add(1, Some(Input::Ptx("more".into())));
        links.complete(1, b"image");
        links.begin(2, None);
        links.add(2, Some(Input::Ptx("text".into())));
        links.complete(2, b"image");
        // Not seen to begin, and empty.
        links.complete(3, b"image");
        links.begin(4, Some(Vec::new()));
        links.complete(4, b"image");
        assert!(links.of(b"image").is_none());
    }

    #[test]
    fn old_images_are_forgotten() {
        let links = Links::default();
        let image = |number: u8| vec![number; REMEMBERED / 2];
        for number in 0..3 {
            links.begin(1, Some(Vec::new()));
            links.add(1, Some(Input::Ptx("text".into())));
            links.complete(1, &image(number));
        }
        assert!(links.of(&image(0)).is_none());
        assert!(links.of(&image(1)).is_some() && links.of(&image(2)).is_some());
    }
}

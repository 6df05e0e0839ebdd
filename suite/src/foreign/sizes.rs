//! How a program of a collection is run small: what its arguments mean, and
//! smaller ones that it most likely accepts.

/// Arguments with every number above `cap` made smaller, and the number of
/// repetitions at `repeats` at most `most`.
///
/// Numbers are halved while they are even, then divided by ten, then
/// by two: powers of two stay such, and multiples of small powers of two stay
/// multiples as long as possible.
pub fn shrink(arguments: &[String], cap: u64, repeats: Option<usize>, most: u64) -> Vec<String> {
    let small = |(position, argument): (usize, &String)| {
        if Some(position) == repeats {
            return match argument.parse::<u64>() {
                Ok(number) => number.min(most).to_string(),
                Err(_) => argument.clone(),
            };
        }
        // `--size=4096` has its number behind the sign.
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (format!("{name}="), value),
            _ => (String::new(), argument.as_str()),
        };
        match value.parse::<u64>() {
            Ok(number) => format!("{name}{}", smaller(number, cap)),
            Err(_) => argument.clone(),
        }
    };
    arguments.iter().enumerate().map(small).collect()
}

fn smaller(mut number: u64, cap: u64) -> u64 {
    while number > cap {
        number = match number {
            even if even.is_multiple_of(2) => even / 2,
            tens if tens.is_multiple_of(10) => tens / 10,
            other => other / 2,
        };
    }
    number
}

/// Which argument sets how often a program repeats its work: the source assigns
/// it to a variable of such a name, or prints it in its usage.
pub fn repeats(source: &str, arguments: &[String]) -> Option<usize> {
    let position = assigned(source).or_else(|| in_usage(source))?;
    let argument = arguments.get(position)?;
    argument.parse::<u64>().is_ok().then_some(position)
}

fn is_repetition(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["repeat", "iter", "times", "steps", "nruns", "passes"]
        .iter()
        .any(|part| name.contains(part))
}

/// `repeat = atoi(argv[3])`.
fn assigned(source: &str) -> Option<usize> {
    source.lines().find_map(|line| {
        let (left, right) = line.split_once('=')?;
        let name = left.split_whitespace().last()?;
        let index = right.split_once("argv[")?.1.split(']').next()?;
        let index: usize = index.trim().parse().ok()?;
        is_repetition(name).then(|| index.checked_sub(1))?
    })
}

/// `Usage: %s <rows> <repeat>`.
fn in_usage(source: &str) -> Option<usize> {
    let usage = source.split_once("Usage:")?.1;
    let usage = usage.split("\\n").next()?;
    let mut placeholders = usage.split('<').skip(1).map(|rest| {
        let name = rest.split('>').next().unwrap_or_default();
        is_repetition(name)
    });
    placeholders.position(|is| is)
}

#[cfg(test)]
mod tests {
    use super::{repeats, shrink};

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn numbers_shrink_and_keep_their_kind() {
        let small = shrink(
            &words("8192 100000 in.txt --n=4096 0.5 1000"),
            512,
            Some(5),
            2,
        );
        assert_eq!(small, words("512 390 in.txt --n=512 0.5 2"));
        assert_eq!(shrink(&words("3 7"), 512, None, 2), words("3 7"));
    }

    #[test]
    fn the_argument_that_repeats_is_found() {
        let two = words("100 1000");
        let source = "int n = atoi(argv[1]);\nconst int repeat = atoi(argv[2]);";
        assert_eq!(repeats(source, &two), Some(1));
        let usage = "printf(\"Usage: %s <number of rows> <repeat>\\n\", argv[0]);";
        assert_eq!(repeats(usage, &two), Some(1));
        assert_eq!(repeats("int main() {}", &two), None);
        // Not a number, not there.
        assert_eq!(repeats(usage, &words("100 file")), None);
        assert_eq!(repeats(usage, &words("100")), None);
    }
}

//! Bars as SVG, one block for each setting: what a table says, at a glance. Pure, but for the file.

use std::path::Path;

use anyhow::Result;

use super::lag::Lag;
use super::report::settings;
use super::summary::{Run, medians};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 190.0;
const LINE: f64 = 22.0;

/// One block: a title, and a name with a value a line.
struct Block {
    title: String,
    bars: Vec<(String, f64)>,
}

/// Writes `bench.svg`.
pub(super) fn write(out: &Path, runs: &[Run], lags: &[Lag]) -> Result<()> {
    let mut blocks: Vec<Block> = settings(runs)
        .into_iter()
        .map(|(receiver, shape)| Block {
            title: format!("submissions a second: {shape}, to {receiver} (medians)"),
            bars: medians(runs, &shape, &receiver).into_iter().map(|m| (m.who, m.rate)).collect(),
        })
        .collect();
    // Resource use hardly depends on the receiver of the mails: the first one stands for all.
    let mut shapes: Vec<(String, String)> = Vec::new();
    for setting in settings(runs) {
        if !shapes.iter().any(|(_, shape)| *shape == setting.1) {
            shapes.push(setting);
        }
    }
    for (receiver, shape) in shapes {
        let all = medians(runs, &shape, &receiver);
        let cpu = all.iter().filter_map(|m| Some((m.who.clone(), m.cpu?)));
        blocks.push(Block {
            title: format!("processor seconds for 1,000 submissions: {shape}, to {receiver}"),
            bars: cpu.collect(),
        });
        let memory = all.iter().filter_map(|m| Some((m.who.clone(), m.peak_mib?)));
        blocks.push(Block {
            title: format!("peak memory, MiB: {shape}, to {receiver}"),
            bars: memory.collect(),
        });
    }
    // One block for each rate: a contestant that cannot keep up at the highest would dwarf all the others.
    let mut rates: Vec<u32> = lags.iter().filter(|lag| lag.wrong.is_empty()).map(|lag| lag.asked).collect();
    rates.dedup();
    for rate in rates {
        let at = lags.iter().filter(|lag| lag.asked == rate && lag.wrong.is_empty());
        let bars = at.flat_map(|lag| {
            [(format!("{}, p50", lag.who), lag.p50_ms), (format!("{}, p99", lag.who), lag.p99_ms)]
        });
        blocks.push(Block { title: format!("routing lag at {rate}/s, ms"), bars: bars.collect() });
    }
    blocks.retain(|block| !block.bars.is_empty());
    std::fs::write(out.join("bench.svg"), svg(&blocks))?;
    Ok(())
}

fn svg(blocks: &[Block]) -> String {
    let lines: usize = blocks.iter().map(|block| block.bars.len() + 2).sum();
    let height = lines as f64 * LINE + LINE;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut y = LINE;
    for block in blocks {
        out.push_str(&format!("<text x=\"10\" y=\"{y}\" font-weight=\"bold\">{}</text>\n", block.title));
        let most = block.bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
        for (name, value) in &block.bars {
            y += LINE;
            let long = (WIDTH - LEFT - 90.0) * (value / most).clamp(0.0, 1.0);
            let colour = if name.starts_with("router") {
                "#2b7a3d"
            } else if name.starts_with("limit") {
                "#bbbbbb"
            } else {
                "#4a6fa5"
            };
            out.push_str(&format!("<text x=\"10\" y=\"{y}\">{name}</text><rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{long:.1}\" height=\"14\" \
                 fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{y}\">{}</text>\n",
                y - 12.0,
                LEFT + long + 6.0,
                figure(*value)
            ));
        }
        y += 2.0 * LINE;
    }
    out.push_str("</svg>\n");
    out
}

/// Three digits that matter, or as many as there are before the point.
fn figure(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_width() {
        let bars = vec![("router".to_owned(), 200.0), ("python".to_owned(), 50.0)];
        let text = svg(&[Block { title: "t".to_owned(), bars }]);
        assert!(text.contains("width=\"620.0\"") && text.contains("width=\"155.0\""), "{text}");
    }
}

//! Where the cells of a diagram stand from left to right: near their neighbours, never over each other. Pure.

use super::layers::Layers;

/// Rounds of approach.
const ROUNDS: usize = 40;

/// Space between two cells of a row.
const GAP: f64 = 22.0;

/// The centre of each cell, in the given widths; the leftmost edge is at 0.
pub(super) fn centres(layers: &Layers, widths: &[f64]) -> Vec<f64> {
    let neighbours = layers.neighbours();
    let mut centres = vec![0.0; widths.len()];
    for row in &layers.rows {
        let mut left = 0.0;
        for cell in row {
            centres[*cell] = left + widths[*cell] / 2.0;
            left += widths[*cell] + GAP;
        }
    }
    for round in 0..ROUNDS {
        let down = round % 2 == 0;
        let rows: Box<dyn Iterator<Item = &Vec<usize>>> =
            if down { Box::new(layers.rows.iter()) } else { Box::new(layers.rows.iter().rev()) };
        for row in rows {
            let wished: Vec<f64> = row
                .iter()
                .map(|cell| {
                    // The side that was placed just now draws twice as much as the other.
                    let sides = [(usize::from(!down), 2.0), (usize::from(down), 1.0)];
                    let (mut sum, mut weight) = (0.0, 0.0);
                    for (side, pull) in sides {
                        for other in &neighbours[side][*cell] {
                            let straight =
                                if layers.is_passing(*cell) && layers.is_passing(*other) { 4.0 } else { 1.0 };
                            sum += straight * pull * centres[*other];
                            weight += straight * pull;
                        }
                    }
                    if weight > 0.0 { sum / weight } else { centres[*cell] }
                })
                .collect();
            let apart: Vec<f64> =
                row.windows(2).map(|pair| f64::midpoint(widths[pair[0]], widths[pair[1]]) + GAP).collect();
            for (cell, centre) in row.iter().zip(nearest(&wished, &apart)) {
                centres[*cell] = centre;
            }
        }
    }
    // A row of one has room: it stands straight above what it leads to.
    let alone = layers.rows.iter().take_while(|row| row.len() == 1).count();
    for cell in layers.rows[..alone].iter().rev().flatten() {
        let below = &neighbours[1][*cell];
        if !below.is_empty() {
            centres[*cell] = below.iter().map(|other| centres[*other]).sum::<f64>() / below.len() as f64;
        }
    }
    let left =
        centres.iter().zip(widths).map(|(centre, width)| centre - width / 2.0).fold(f64::INFINITY, f64::min);
    for centre in &mut centres {
        *centre -= left;
    }
    centres
}

/// The places nearest to the wished ones (least squares) that keep their order and stand `apart` at least: what would
/// overlap is pooled and moved as one.
fn nearest(wished: &[f64], apart: &[f64]) -> Vec<f64> {
    let mut offsets = Vec::with_capacity(wished.len());
    let mut offset = 0.0;
    for at in 0..wished.len() {
        offsets.push(offset);
        offset += apart.get(at).copied().unwrap_or_default();
    }
    // Pools of (mean, how many), in order; each mean is above the one before.
    let mut pools: Vec<(f64, f64)> = Vec::new();
    for (wish, offset) in wished.iter().zip(&offsets) {
        let mut pool = (wish - offset, 1.0);
        while let Some((mean, many)) = pools.pop_if(|(mean, _)| *mean >= pool.0) {
            pool = ((mean * many + pool.0 * pool.1) / (many + pool.1), many + pool.1);
        }
        pools.push(pool);
    }
    let mut means = pools.into_iter().flat_map(|(mean, many)| std::iter::repeat_n(mean, many as usize));
    offsets.iter().map(|offset| offset + means.next().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_come_true_where_they_do_not_meet_and_what_meets_shares_the_way() {
        assert_eq!(nearest(&[0.0, 100.0, 200.0], &[50.0, 50.0]), [0.0, 100.0, 200.0]);
        // Two that want one place stand on both sides of it.
        assert_eq!(nearest(&[100.0, 100.0], &[50.0]), [75.0, 125.0]);
        // Three in the wrong order keep their order.
        assert_eq!(nearest(&[100.0, 50.0, 0.0], &[10.0, 10.0]), [40.0, 50.0, 60.0]);
    }
}

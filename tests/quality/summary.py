"""Says in four lines what a run learnt; fails where it learnt nothing: summary.py RUN_FOLDER."""

import sys
from pathlib import Path

from runs import column, history


def main() -> int:
    """Print first and last losses, the validation score and where the curve is."""
    folder = Path(sys.argv[1])
    rows = history(folder)
    losses, scores = column(rows, "train_loss"), column(rows, "val_accuracy")
    curve = folder / "curve.png"
    print(f"training loss        {losses[0]:.4f} -> {losses[-1]:.4f}")
    print(f"validation accuracy  {scores[0]:.1%} -> {scores[-1]:.1%}")
    print(f"curve                {curve}")
    print(f"the project          {folder.parents[1]}")
    return 0 if losses[-1] < losses[0] and curve.is_file() else 1


if __name__ == "__main__":
    sys.exit(main())

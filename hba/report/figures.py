"""What a template draws: plots whose places are known, and tables of the numbers in them."""

from dataclasses import dataclass

from hba.report.geometry import Tick


@dataclass(frozen=True)
class Table:
    """The numbers of a figure, as they are shown."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Series:
    """A line of a chart. style: a class of page.css. band: an area round it. marks: dots. label_at: of its label at the
    right, in per cent from the top; name and value stand there.
    """

    name: str
    value: str
    style: str
    line: str
    label_at: float
    band: str = ""
    marks: str = ""


@dataclass(frozen=True)
class Chart:
    """Lines over epochs. description: in words, for those who do not see it."""

    title: str
    description: str
    series: tuple[Series, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    table: Table


@dataclass(frozen=True)
class Layer:
    """One of the areas of a stack. label_at: per cent from the top, None where it has no room for one."""

    name: str
    value: str
    style: str
    area: str
    label_at: float


@dataclass(frozen=True)
class Stack:
    """Shares of a whole over epochs, the first layer at the bottom."""

    description: str
    layers: tuple[Layer, ...]
    x_ticks: tuple[Tick, ...]
    table: Table


@dataclass(frozen=True)
class Curve:
    """One quantity of an operation: a line for each copy, dashed from the second on. Or a regularizer.

    before, after: its mean over copies at the first and the last epoch. low, high: the ends of its range.
    """

    quantity: str
    style: str
    before: str
    after: str
    low: str
    high: str
    bands: tuple[str, ...]
    lines: tuple[str, ...]
    description: str


@dataclass(frozen=True)
class Panel:
    """An operation. share: of the images that it is applied to in the last epoch. Or a group of regularizers, which
    have none.
    """

    name: str
    share: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Panels:
    """All operations, the strongest in the last epoch first; or all regularizers."""

    panels: tuple[Panel, ...]
    epochs: int
    table: Table


@dataclass(frozen=True)
class Picture:
    """An image in the page. source: a data URI. is_small: fewer pixels than a screen shows it with. caption: lines."""

    source: str
    alternative: str
    is_small: bool
    caption: tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """Pictures at one time of the schedule, image by image, so many of each."""

    title: str
    when: str
    pictures: tuple[Picture, ...]
    n_copies: int


@dataclass(frozen=True)
class Contest:
    """A row of an evaluation. seeds, mean: places on the scale of errors. interval, difference: on that of differences,
    None where there are none. style: better, worse or open.
    """

    name: str
    seeds: str
    mean: float | None
    mean_text: str
    interval: tuple[float, float] | None
    difference: float | None
    difference_text: str
    style: str
    description: str


@dataclass(frozen=True)
class Contests:
    """All rows, the schedule's first. zero: where no difference is."""

    rows: tuple[Contest, ...]
    error_ticks: tuple[Tick, ...]
    difference_ticks: tuple[Tick, ...]
    zero: float
    table: Table


@dataclass(frozen=True)
class ClassLabel:
    """A class beside its row of a matrix. at: per cent from the top."""

    name: str
    at: float


@dataclass(frozen=True)
class Shade:
    """Cells of a matrix with about the same share. style: a class of page.css."""

    style: str
    cells: str


@dataclass(frozen=True)
class Matrix:
    """A confusion matrix, a row for each class and a column for each answer.
    classes: none where there is no room for their names.
    """

    name: str
    description: str
    shades: tuple[Shade, ...]
    classes: tuple[ClassLabel, ...]


@dataclass(frozen=True)
class Confusions:
    """matrices, recalls: empty and None where the classes are too many. legend: what each style stands for.
    balanced: of every row.
    """

    matrices: tuple[Matrix, ...]
    legend: tuple[tuple[str, str], ...]
    pairs: Table
    recalls: Table | None
    balanced: Table

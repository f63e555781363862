"""The tests mirror twill/ file by file; helpers they share are modules of this package."""

from twill.cli.entry import collect_seldom, one_thread_for_products

one_thread_for_products()  # before any of them imports NumPy
collect_seldom()

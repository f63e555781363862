"""Tests of twill.coverage."""

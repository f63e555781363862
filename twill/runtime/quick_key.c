/* The key under which an autotuner keeps the configuration of a call, as `twill.runtime.wrappers` has it in Python.
   Compiled in front of quick_match.c, as one file. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *ELEMENT_TYPE;

/* The place of a name among the first `count` of a list of names; -1: it is not there. */
static Py_ssize_t position_of(PyObject *names, Py_ssize_t count, PyObject *name)
{
    for (Py_ssize_t place = 0; place < count; place++)
        if (PyList_GET_ITEM(names, place) == name)
            return place;
    for (Py_ssize_t place = 0; place < count; place++)
        if (PyUnicode_Check(PyList_GET_ITEM(names, place)) && !PyUnicode_Compare(PyList_GET_ITEM(names, place), name))
            return place;
    return -1;
}

/* Append the name of a value's element type, if it has one. -1 on an error. */
static int append_type(PyObject *key, PyObject *value, PyObject *element_types)
{
    if (value == Py_None || PyLong_CheckExact(value) || PyBool_Check(value) || PyFloat_CheckExact(value) ||
        PyUnicode_CheckExact(value))
        return 0;
    PyObject *type = PyObject_GetAttr(value, ELEMENT_TYPE);
    if (!type) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    PyObject *name = PyObject_GetItem(element_types, type);
    Py_DECREF(type);
    int failed = name ? PyList_Append(key, name) : -1;
    Py_XDECREF(name);
    return failed;
}

/* key_of(keys, names, arg_names, element_types, args, kwargs): a tuple, or NotImplemented. keys: a list of names; names:
   a frozenset of all parameters; arg_names: a list of them. */
static PyObject *key_of(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 6 || !PyList_CheckExact(arguments[0]) || !PyFrozenSet_CheckExact(arguments[1]) ||
        !PyList_CheckExact(arguments[2]) || !PyTuple_CheckExact(arguments[4]) || !PyDict_CheckExact(arguments[5]))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *keys = arguments[0], *names = arguments[1], *arg_names = arguments[2], *types = arguments[3];
    PyObject *args = arguments[4], *kwargs = arguments[5], *name, *value;
    Py_ssize_t given = PyTuple_GET_SIZE(args), step = 0;
    if (given > PyList_GET_SIZE(arg_names))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *key = PyList_New(0);
    for (Py_ssize_t place = 0; key && place < PyList_GET_SIZE(keys); place++) {
        name = PyList_GET_ITEM(keys, place);
        int known = PySet_Contains(names, name);
        if (known < 0)
            goto failed;
        if (!known)
            continue;
        value = PyDict_GetItemWithError(kwargs, name);
        if (!value) {
            if (PyErr_Occurred())
                goto failed;
            Py_ssize_t found = position_of(arg_names, given, name);
            value = found < 0 ? NULL : PyTuple_GET_ITEM(args, found);
        }
        if (value && PyList_Append(key, value) < 0)
            goto failed;
    }
    for (Py_ssize_t place = 0; key && place < given; place++)
        if (append_type(key, PyTuple_GET_ITEM(args, place), types) < 0)
            goto failed;
    while (key && PyDict_Next(kwargs, &step, &name, &value)) {
        int known = PySet_Contains(names, name);
        if (known < 0)
            goto failed;
        if (!known)
            continue;
        if (given && PyUnicode_Check(name) && position_of(arg_names, given, name) >= 0) {
            Py_DECREF(key); /* given twice: Python says so */
            Py_RETURN_NOTIMPLEMENTED;
        }
        Py_INCREF(value); /* attributes may be any code */
        int wrong = append_type(key, value, types);
        Py_DECREF(value);
        if (wrong < 0)
            goto failed;
    }
    if (!key)
        return NULL;
    PyObject *whole = PyList_AsTuple(key);
    Py_DECREF(key);
    return whole;
failed:
    Py_DECREF(key);
    return NULL;
}
